"""The contestants: one small file each, run by a Python that has this library."""
