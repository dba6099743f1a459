"""A queue as it lives, for those who watch it: `bucketq top` and the dashboard.

    queue.json ──Looker──▶ Look ──┬──▶ Trend   how fast, how long
       once in a while, if it     └──▶ rows    entrypoints, workers, jobs
       has changed

`look` reads; `trend` and `rows` are pure. Nothing but queue.json is read, so it costs the same
however deep the queue is. `finding` and `dead` ask the queue for more, when somebody wants it.
"""
