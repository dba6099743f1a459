"""Standard input, for commands that read it to its end."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from bucketq.errors import ConfigurationError


@contextmanager
def standard_input() -> Iterator[BinaryIO]:
    """What is piped in, or typed. Raises ConfigurationError if it is closed."""
    if sys.stdin is None:
        raise ConfigurationError("standard input is closed; name a file instead")
    # asyncio would let Ctrl-C wait until the read is over, which may be never.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield sys.stdin.buffer
    finally:
        signal.signal(signal.SIGINT, before)
