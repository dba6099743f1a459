"""The process that forks Spark's Python workers, with their imports done before the fork.

Spark starts a Python process for each task, each plan of a source and each commit of a sink. Each of
them would import pandas, PyArrow and bucketq again, which costs more CPU than most small tasks.
`local_session` names this module in `spark.python.daemon.module`.
"""

import importlib
import sys

import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import bucketq.spark.sink
import bucketq.spark.source  # noqa: F401

if __name__ == "__main__":
    if len(sys.argv) > 1:
        importlib.import_module(sys.argv[1])
    manager()
