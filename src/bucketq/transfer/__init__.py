"""Transfer: a whole queue as a file of JSON lines, and back.

    {"bucketq_export":1,"version":812,"jobs":2,"exported_at":"2026-11-16T19:00:00Z"}
    {"limits":{"paused":["mail"]}}
    {"schedule":{"name":"report","cron":"30 9 * * *","job":{…}}}
    {"batch":{"id":"…","total":100,"left":7,"then":{…}}}
    {"job":{"id":"…","entrypoint":"mail","created_at":"…","seq":1,"json":{"to":"alice"}}}
    {"job":{"id":"…","entrypoint":"thumb","payload":"iVBORw==","created_at":"…","seq":2}}
    {"finished":{"v":1,"id":"…","entrypoint":"mail",…}}
    {"end":{"jobs":2,"finished":1}}

The first line tells the format, and the last one that nothing is missing. Jobs stand in the order in
which they will be served, those that wait for others after all others, and are spelt as in queue.json
(see `bucketq.jobline`), but with their payloads, however large. One that runs is told as a waiting one.
Finished ones are spelt as in the archive.
"""

from bucketq.transfer.export import export
from bucketq.transfer.intake import Intake, take_in

__all__ = ["Intake", "export", "take_in"]
