"""The dashboard: a queue and its brokers, for people with a browser.

    browser ──▶ Site ──▶ Gate ──▶ NiceGUI ──▶ Frame ──▶ a page of `pages`
                other    who may   one for     header,     │ each_look, each_second: draw
                origins  come in   a process   banner      │ act, perform: ask, do, tell
                                                           ▼
    queue.json ◀── Watch: one look a second for all    Visitor.queue ──▶ the broker, or the storage
                   open pages; none while none is open   refuses what the roles do not allow

`house` says where it stands: on a broker (`bucketq serve --dashboard`), or alone before a storage or
brokers (`bucketq dashboard URL`). NiceGUI is imported in this room alone, and only when it is asked for.

A page is a function that takes a `Frame`, and a line in the table of `pages`:

    def draw_workers(frame: Frame) -> None:                         # may be `async def`
        workers = Table([Column("id", "Worker")], label="Workers")  # and see `parts`

        def show(look: Look) -> None:
            workers.show([{"id": row.name} for row in worker_rows(look)])

        frame.each_look(show)      # now, and whenever the queue has changed; at most once a second
        frame.act(
            "Pause the queue", Role.ADMIN, "Pause the whole queue?", pause, icon="pause"
        )                          # a button, for those who may; `pause(queue)` returns a sentence

    Page("/workers", "Workers", draw_workers, icon="engineering", key="w")

- `frame.watch` has the last `look`, the `trend`, and the `history` for charts (`charts.LiveChart`).
- `frame.visitor.queue` is for everything else that is read or done; what costs a request is read when
  somebody asks for it, never every second. `frame.perform(question, deed)` is `act` without a button,
  for the rows of a table; `frame.may(role)` says whether to show one.
- `frame.request` has the path's and the query's parameters. A page without an icon is not in the
  navigation, and `parent` names the one that it belongs to: Page("/jobs/{job_id}", …, parent="/jobs").
- A search box has the prop `data-search`, so that / finds it.
- The look is not redacted: never show a job's `token`. `Visitor.queue` gives none to who must not see it.
- Draw with `parts`, whose `show` sends only what has changed; colours and distances are in
  assets/dashboard.css. Icons are those of the classic Material Icons.
"""
