"""bucketq top: a queue as it lives, on a terminal.

    live ── Look, Trend, rows ──▶ screen
    queue ◀── cancel, redrive, pause, resume ── keys

What stands on the screen is drawn anew after each look.
"""
