"""The `bucketq` command."""
