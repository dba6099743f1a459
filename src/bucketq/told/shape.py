"""Shapes that all of it has."""

from typing import Annotated

import msgspec
from msgspec import Meta

from bucketq.job import JobStatus

Status = Annotated[str, Meta(extra_json_schema={"enum": [*JobStatus, "completed", "cancelled", "expired"]})]


class Told(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """What somebody is told in JSON."""
