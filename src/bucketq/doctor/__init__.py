"""The doctor: is this storage a place for a queue, and is the queue that is there well?

    examine ─┬─ access         what the credentials allow
             ├─ conditions     does the server honour conditional writes
             ├─ counting       and does it while several processes write
             ├─ measures       latency, clocks, versions
             ├─ brokers        do they answer, does one lead
             └─ health         how the queue itself stands

What is tried on the storage is tried on objects of the doctor's own, never on queue.json.
"""

from bucketq.doctor.examine import examine
from bucketq.doctor.finding import Finding, Level, exit_code

__all__ = ["Finding", "Level", "examine", "exit_code"]
