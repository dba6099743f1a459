"""bucketq top: a queue as it lives, on a terminal.

    queue.json ──Looker──▶ Look ──┬──▶ Trend   how fast, how long      ┐
       once a second, if it       └──▶ rows    entrypoints, workers, … ├──▶ screen
       has changed                                                     ┘
    queue ◀── cancel, redrive, pause, resume ─────── keys ──────────────

`look` reads, `trend` and `rows` are pure, and what stands on the screen is drawn from them anew
after each look. Nothing but queue.json is read, so it costs the same however deep the queue is.
"""
