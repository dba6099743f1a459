"""Palette: the colours. What they say is said in words as well, for there may be no colour."""

THEME = "nord"
# Those of the theme, for texts that do not know it.
GOOD, NOTICE, BAD, FAINT = "#a3be8c", "#ebcb8b", "#bf616a", "dim"
