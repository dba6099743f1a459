"""The Java that Spark needs: tests without it skip, but fail in CI."""

import os

import pytest

from bucketq import ConfigurationError
from bucketq.spark.session import find_java


def need_java() -> None:
    """Skip where there is no Java; but fail in CI, where green must mean that nothing was skipped."""
    try:
        find_java()
    except ConfigurationError as error:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(str(error))
