"""open_storage: the storage that a URL names."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from bucketq.errors import ConfigurationError
from bucketq.storage.cloud import AzureStorage, CloudStorage, GCSStorage, S3Storage
from bucketq.storage.file import LocalFileSystemStorage
from bucketq.storage.memory import InMemoryStorage
from bucketq.storage.port import Bucket

# What a URL's query may set. The rest are secrets and objects: those are keyword arguments only.
_QUERY_OPTIONS = {"account_name", "endpoint_url", "region_name"}

# What other tools call them.
_MEANT = {
    **dict.fromkeys(("s3a", "s3n"), "; here S3 is s3://"),
    "gcs": "; here GCS is gs://",
    **dict.fromkeys(("abfs", "abfss", "wasbs", "azure"), "; here Azure is az://"),
}

_memories: dict[str, InMemoryStorage] = {}


def open_storage(url: str, **options: Any) -> Bucket:
    """Return the storage that a URL names. Nothing is read or written yet.

    >>> storage = open_storage("memory://")                    # a new one, private
    >>> storage = open_storage("memory://demo")                # one for all of this process
    >>> storage = open_storage("file:///var/lib/myapp/queue.json")
    >>> storage = open_storage("s3://bucket/queues/jobs.json?region_name=eu-central-1")
    >>> storage = open_storage("gs://bucket/jobs.json", endpoint_url="http://localhost:4443")
    >>> storage = open_storage("az://container/jobs.json?account_name=mine")

    Options are the keyword arguments of the scheme's storage class; those that are no
    secret may also be in the URL's query, and a keyword wins over the query. Paths are
    percent-decoded. Raises ConfigurationError for a URL or option that makes no sense.
    """
    parts = _split(url)
    opener = _OPENERS.get(parts.scheme)
    if opener is None:
        raise ConfigurationError(
            f"no storage has the scheme {parts.scheme!r}; known are {_known_schemes()},"
            f" and grpc://, http:// and ws:// for brokers{_MEANT.get(parts.scheme, '')}"
        )
    return opener(parts, {**_query_options(parts), **options})


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ConfigurationError("the storage URL cannot be read; is there a stray '[' in it?") from None
    if not parts.scheme:
        # A path may be shown; what else somebody has typed may hold a secret.
        meant = f"; for a file say {Path(url).absolute().as_uri()}" if _is_path(url) else ""
        raise ConfigurationError(
            f"a storage URL begins with one of {_known_schemes()}, a broker's with grpc://, http:// or ws://{meant}"
        )
    # Neither message repeats the URL: it holds what must not be seen.
    if "@" in parts.netloc:
        raise ConfigurationError(
            f"this {parts.scheme} URL has credentials before its '@', where they end up in logs; "
            "give them as options or by the environment"
        )
    if parts.fragment:
        raise ConfigurationError(f"this {parts.scheme} URL has a '#'; write %23 where it belongs to the name")
    return parts


def _is_path(text: str) -> bool:
    return text.endswith(".json") and not set(text) & set("@?#=")


def _query_options(parts: SplitResult) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _QUERY_OPTIONS:
            raise ConfigurationError(
                f"a storage URL cannot set {name!r}; it can set {', '.join(sorted(_QUERY_OPTIONS))}, "
                "and everything else comes from the environment, as the cloud's own tools read it, or as an "
                "option in Python, so that no secret ends up in logs"
            )
        if name in options:
            raise ConfigurationError(f"this {parts.scheme} URL sets {name!r} twice")
        options[name] = value
    return options


def _open_memory(parts: SplitResult, options: dict[str, Any]) -> Bucket:
    _check_options("memory", options, set())
    name = unquote(parts.netloc + parts.path)
    return _memories.setdefault(name, InMemoryStorage()) if name else InMemoryStorage()


def _open_file(parts: SplitResult, options: dict[str, Any]) -> Bucket:
    _check_options("file", options, set())
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or not path.startswith("/"):
        raise ConfigurationError("a file URL takes an absolute path: file:///var/lib/myapp/queue.json")
    if path.endswith("/"):
        raise ConfigurationError(f"{path} names a folder; add the queue's file name, as in {path}queue.json")
    return LocalFileSystemStorage(path)


def _cloud_opener(storage_class: Callable[..., CloudStorage]) -> "Opener":
    arguments = list(inspect.signature(storage_class).parameters)

    def open_cloud(parts: SplitResult, options: dict[str, Any]) -> Bucket:
        _check_options(parts.scheme, options, set(arguments[2:]))
        key = unquote(parts.path.removeprefix("/"))
        if not parts.netloc or not key or key.endswith("/"):
            raise ConfigurationError(
                f"this {parts.scheme} URL names no object; "
                f"one that does looks like {parts.scheme}://bucket/queues/jobs.json"
            )
        return storage_class(parts.netloc, key, **options)

    return open_cloud


def _check_options(scheme: str, options: dict[str, Any], known: set[str]) -> None:
    names = ", ".join(sorted(known)) or "none"
    for name in options:
        if name not in known:
            raise ConfigurationError(f"{scheme}:// storages have no option {name!r}; they have {names}")


def _known_schemes() -> str:
    return ", ".join(f"{scheme}://" for scheme in _OPENERS)


Opener = Callable[[SplitResult, dict[str, Any]], Bucket]

_OPENERS: dict[str, Opener] = {
    "memory": _open_memory,
    "file": _open_file,
    "s3": _cloud_opener(S3Storage),
    "gs": _cloud_opener(GCSStorage),
    "az": _cloud_opener(AzureStorage),
}
