"""The options of `bucketq serve` that say how much clients may ask."""

import argparse

from bucketq.broker.allowance import Allowance
from bucketq.cli.options import Option
from bucketq.settings import Settings

_DEFAULT = Allowance()

ALLOWANCE_OPTIONS: list[Option] = [
    ("--max-message-bytes", _DEFAULT.message_bytes_max, "bytes of one message, by any transport"),
    ("--max-payload-bytes", Settings().payload_bytes_max, "bytes of one payload"),
    ("--max-batch", _DEFAULT.batch_max, "jobs that one call adds, claims or settles"),
    (
        "--max-connections",
        _DEFAULT.connections_max,
        "connections of each port; 0: by the limit on open files",
    ),
    ("--max-waiting", _DEFAULT.waiting_max, "calls that wait for a job, a result or events"),
    ("--max-waiting-per-client", _DEFAULT.waiting_per_client_max, "of these, those of one client"),
    ("--rate-per-client", _DEFAULT.rate_per_client, "requests a second of one client; 0: no limit"),
    ("--burst-per-client", _DEFAULT.burst_per_client, "requests at once after a rest; 0: those of a second"),
    (
        "--header-timeout",
        _DEFAULT.header_within_s,
        "seconds for the header of a request, and for TLS to begin",
    ),
    ("--body-timeout", _DEFAULT.body_within_s, "seconds for its body, if it is slower than 1 KB/s"),
    ("--idle-timeout", _DEFAULT.idle_s, "seconds after which a connection without a request is closed"),
]


def allowance_of(options: argparse.Namespace) -> Allowance:
    """What the options allow. Raises ConfigurationError."""
    return Allowance(
        message_bytes_max=options.max_message_bytes,
        batch_max=options.max_batch,
        connections_max=options.max_connections,
        waiting_max=options.max_waiting,
        waiting_per_client_max=options.max_waiting_per_client,
        rate_per_client=options.rate_per_client,
        burst_per_client=options.burst_per_client,
        header_within_s=options.header_timeout,
        body_within_s=options.body_timeout,
        idle_s=options.idle_timeout,
    )
