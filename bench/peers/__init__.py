"""Bucketq beside its peers: the same jobs, the same machine, the same kills. `make bench-peers` runs it."""
