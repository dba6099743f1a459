"""The tables' schemas in Spark's types, and the checks of what a user asks for or brings."""

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegralType,
    StringType,
    StructType,
    TimestampType,
)

from bucketq.errors import ConfigurationError
from bucketq.spark.columns import ARCHIVE, JOBS, LINES

_TABLES: dict[str, pa.Schema] = {"jobs": JOBS, "archive": ARCHIVE, "lines": LINES}

# The columns of a table that is written: what they may be, and how to say so.
_TEXT = (StringType,), "a string"
_PAYLOAD = (
    (StringType, BinaryType),
    "a string or binary; for anything else use to_json(struct(…)), to_json(…)",
)
_INTEGER = (IntegralType,), "a whole number"
_WRITTEN: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "entrypoint": _TEXT,
    "payload": _PAYLOAD,
    "priority": _INTEGER,
    "max_attempts": _INTEGER,
    "run_at": ((TimestampType,), "a timestamp"),
}


def schema_of(table: str) -> StructType:
    """The schema of a table that is read."""
    return from_arrow_schema(_TABLES[table])


def check_read(table: str, schema: StructType) -> list[str]:
    """The columns that a user's own, narrower schema asks for. Raises ConfigurationError."""
    known = {field.name: field.dataType for field in schema_of(table)}
    for field in schema:
        if field.name not in known:
            raise ConfigurationError(
                f"the table {table} has no column {field.name!r}; it has {', '.join(known)}"
            )
        if not field.nullable:
            raise ConfigurationError(f"no column is NOT NULL; read {field.name} without that")
        if field.dataType != known[field.name]:
            raise ConfigurationError(
                f"the column {field.name} of the table {table} is {known[field.name].simpleString()},"
                f" not {field.dataType.simpleString()}; read it so, and cast it afterwards"
            )
    return list(schema.names)


def check_written(schema: StructType, has_entrypoint: bool) -> None:
    """Raise ConfigurationError if rows with these columns cannot be jobs."""
    names = [name.lower() for name in schema.names]
    for name, field in zip(names, schema, strict=True):
        if name not in _WRITTEN:
            raise ConfigurationError(
                f"a job has no {field.name!r}: the columns are {', '.join(_WRITTEN)}. Drop it, or put it into"
                ' the payload: df.select("entrypoint", to_json(struct(…)).alias("payload"))'
            )
        types, wanted = _WRITTEN[name]
        if not isinstance(field.dataType, types):
            raise ConfigurationError(
                f"the column {field.name} is {field.dataType.simpleString()}, and should be {wanted}"
            )
    if len(set(names)) < len(names):
        raise ConfigurationError(f"a column is there twice: {', '.join(schema.names)}")
    if "entrypoint" not in names and not has_entrypoint:
        raise ConfigurationError(
            'there is no column entrypoint; add one, or say .option("entrypoint", "resize") for all rows'
        )
    if "payload" not in names:
        raise ConfigurationError(
            'there is no column payload; make one, such as to_json(struct("*")).alias("payload")'
        )
