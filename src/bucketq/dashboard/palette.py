"""Palette: the colours of charts, for light ground and for dark. What they say is said in words too."""

QUEUED = "#4c8dff"
RUNNING = "#22b07d"
SCHEDULED = "#a878f0"
BLOCKED = "#e0a020"
DONE = "#22b07d"
BAD = "#ef5b6b"
