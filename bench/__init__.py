"""The benchmark: `python -m bench`, or `make bench`. See docs/benchmarks.md."""
