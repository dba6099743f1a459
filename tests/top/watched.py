"""`top` looking at a queue, and what is seen of it."""

import html
import re
from contextlib import asynccontextmanager

from bucketq.top.screen import Top

_TEXT = re.compile(r'<text[^>]*? x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>')
_CHAR_WIDTH = 12.2


@asynccontextmanager
async def watching(queue, size=(80, 24), every_s=3600):
    """A pilot of `top`, which looks again when the test waits for something to be seen."""
    top = Top(queue, every_s=every_s, clock=getattr(queue, "looks_by", None))
    async with top.run_test(size=size) as pilot:
        await until_seen(pilot, "read in")
        yield pilot


async def until_seen(pilot, text, is_there=True):
    """Look until a text stands on the screen, or does not any more; the test's time limit is the limit."""
    while (text in seen(pilot)) is not is_there:
        await pilot.app.look()
        await pilot.pause(0.005)


async def until_told(pilot, text):
    """Wait, without a look, until a text stands on the screen."""
    while text not in seen(pilot):
        await pilot.pause(0.005)


def seen(pilot):
    """The text on the screen."""
    lines = {}
    for x, y, text in _TEXT.findall(pilot.app.export_screenshot()):
        line = lines.get(y, "")
        lines[y] = line.ljust(round(float(x) / _CHAR_WIDTH)) + html.unescape(text).replace("\xa0", " ")
    return "\n".join(lines.values())
