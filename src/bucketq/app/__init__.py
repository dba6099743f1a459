"""App: functions as jobs, and the worker that runs them.

    Handler.enqueue ──▶ Call ──▶ Queue ──▶ Worker ──▶ attempt ──▶ Outcome ──▶ Queue
      `arguments` make a payload             `resources`, `middleware`, pools

`app` is where a program begins, `handler` one function with its options, `attempt` one try at a
job, wherever it is made: in a worker, on a Spark executor, in a test. `typed` is for those who want
typed payloads, and no app.
"""

from bucketq.app.app import App
from bucketq.app.call import Call
from bucketq.app.events import Event
from bucketq.app.handler import Handler
from bucketq.app.outcome import Completed, Failed, Interrupted, Outcome, Rejected
from bucketq.app.resources import provided
from bucketq.app.running import Running, current
from bucketq.app.typed import TypedJob, TypedQueue
from bucketq.app.worker import Worker

__all__ = [
    "App",
    "Call",
    "Completed",
    "Event",
    "Failed",
    "Handler",
    "Interrupted",
    "Outcome",
    "Rejected",
    "Running",
    "TypedJob",
    "TypedQueue",
    "Worker",
    "current",
    "provided",
]
