"""QueueState <-> JSON bytes. The only place that knows the format of queue.json.

    {"format":9,"version":7,"sequence":5002,"enqueued_total":5002,…,"writers":{…},"segments":[
    {"name":"backlog/…","entrypoint":"mail","count":5000,"first":[0,0,3],"last":[0,0,5002],…}
    ],"jobs":[
    {"id":"…","entrypoint":"mail","created_at":"…","seq":1,"json":{"to":"alice"}},
    {"id":"…","entrypoint":"thumb","payload":"iVBORw==","created_at":"…","seq":2}
    ]}

One job a line, and one segment of the backlog. Before the segments stands what is on its
way to the archive: `finished` and `sealed` jobs, one a line, the `staged` objects with more of
them, and how many were `archived` a day; and before that which broker leads, how far the
batches of its clients have got, and which bulk loads have landed, which unique keys are kept
though their jobs are finished, what is left of `batches`, the schedules, one a line, and what
is known of limits and tenants' turns. Files of older formats, and of jqueue, which have neither
`format` nor `seq`, are opened as they are.
"""

from bucketq.codec.decoder import decode, leader_of
from bucketq.codec.document import FORMAT, StoredBatch
from bucketq.codec.encoder import StateEncoder, encode, encode_batch

__all__ = ["FORMAT", "StateEncoder", "StoredBatch", "decode", "encode", "encode_batch", "leader_of"]
