"""Raw state: queue.json as it is, one job a line, without what would let somebody settle others' claims."""

from nicegui import ui

from bucketq.broker.redaction import redacted
from bucketq.dashboard.frame import Frame
from bucketq.dashboard.parts import empty, panel, text
from bucketq.errors import BucketQError
from bucketq.words import printable, spell_size

# More of it is nobody's reading, and a browser is slow with it.
_SHOWN_MAX = 200_000


async def draw_raw(frame: Frame) -> None:
    """Read once, and again when somebody asks for it: it costs a request each time."""
    storage = frame.visitor.queue.storage
    with ui.element("div").classes("bq-toolbar"):
        again = ui.button("Read again", icon="refresh").props("flat no-caps")
        told = text("span", "", "bq-note")
    with panel() as box:
        content = text("pre", "", "bq-raw")
        content.props('tabindex="0" aria-label="queue.json"')
    nothing = empty(
        "data_object",
        "There is no queue.json yet",
        "The first job makes it.",
        f"bucketq enqueue hello --url {frame.house.url}",
    )

    async def show() -> None:
        try:
            read, etag = await storage.read()
        except (BucketQError, OSError) as error:
            frame.tell(f"{error}", is_trouble=True)
            return
        exists = bool(etag and read)
        box.set_visibility(exists)
        nothing.set_visibility(not exists)
        if exists:
            shown = printable(redacted(read)[: _SHOWN_MAX + 1].decode(errors="replace"))
            content.text = shown[:_SHOWN_MAX]
            rest = (
                f", of which the first {spell_size(_SHOWN_MAX)} are here" if len(shown) > _SHOWN_MAX else ""
            )
            told.text = f"{spell_size(len(read))}{rest}; without the tokens of claims, and clients' sessions."

    again.on_click(show)
    await show()
