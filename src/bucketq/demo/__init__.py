"""The demo, `python -m bucketq.demo`: ten seconds in the life of a queue."""
