"""The demo, `python -m bucketq.demo`: a tour of bucketq at work, on this machine alone.

    producer ──▶ broker 1, leads ──▶ queue.json ◀── broker 2, waits        each a process of its own
    worker 1, 2, 3 ◀──▶ ┘ ✗ SIGKILL               leads from here on ┘

`process` is one of them, `cast` all of them, `jobs` what the workers run. `tour` plays the scenes, `display`
and `picture` show them, and `summary` says what was seen.
"""
