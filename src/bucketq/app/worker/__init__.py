"""Worker: runs the jobs of an app, with its slots, its three loops, its pools and its health."""

from bucketq.app.worker.worker import Worker

__all__ = ["Worker"]
