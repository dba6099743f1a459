"""Configuration: settings from flags, the environment and bucketq.toml, and where each came from.

    url = "s3://my-bucket/jobs.json"

    [queue]                     # every field of bucketq.Settings
    stale_after_s = 60

    [serve]                     # the options of `bucketq serve`; [work] and [pipeline] alike
    grpc_port = 7420

A flag wins over a variable, a variable over the file, the file over the default. A name that is
none is refused: a setting that was misspelt would do nothing, and nobody would notice.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bucketq.cli.options import variable_of
from bucketq.errors import ConfigurationError
from bucketq.settings import Settings

if TYPE_CHECKING:
    from typer import Context

FILE = "bucketq.toml"
QUEUE = "queue"
# Not in the file, since that is for everybody to read, nor flags, since those are seen among the processes.
CLIENT_VARIABLES = {
    "BUCKETQ_TOKEN": "who a client of a broker is",
    "BUCKETQ_TOKEN_FILE": "or a file that it is in",
    "BUCKETQ_TOKENS": "whom `bucketq serve` lets in; or --tokens-file",
    "BUCKETQ_CA": "whose certificates a client of a broker trusts",
    "BUCKETQ_CERT": "the certificate that it shows",
    "BUCKETQ_KEY": "its key",
}
_OTHER_VARIABLES = {"BUCKETQ_URL", "BUCKETQ_CONFIG", *CLIENT_VARIABLES}
_TOKEN_VARIABLES = ("BUCKETQ_TOKEN", "BUCKETQ_TOKEN_FILE")
_QUEUE_FIELDS = {field.name: field for field in fields(Settings)}
# Kubernetes tells every container of the services around it; one that is called bucketq-… looks like ours.
_OF_KUBERNETES = re.compile(r"_SERVICE_(HOST|PORT)(_|$)|_PORT_\d+_(TCP|UDP)(_|$)")


class Origin(NamedTuple):
    """Where the value of a setting comes from."""

    value: Any
    origin: str


class Setting(NamedTuple):
    """A setting: the table of the file in which it may stand, its name, and its option of a command."""

    section: str
    name: str
    path: tuple[str, ...]
    option: Any


class Configuration:
    """What the environment and the file say."""

    def __init__(self, tables: Mapping[str, Any], path: Path, environment: Mapping[str, str]) -> None:
        self.path = path
        self._tables = tables
        self._environment = environment
        # What `check` has found to be right for bucketq.Settings.
        self._of_queue: dict[str, Any] = {}

    @classmethod
    def read(cls, given: str | None, environment: Mapping[str, str] = os.environ) -> "Configuration":
        """The configuration of this folder, or of a file that was named. Raises ConfigurationError."""
        named = given or environment.get("BUCKETQ_CONFIG")
        path = Path(named or FILE)
        try:
            return cls(tomllib.loads(path.read_text()), path, environment)
        except FileNotFoundError:
            if named:
                raise ConfigurationError(f"there is no {path}; `bucketq init` makes a {FILE}") from None
            return cls({}, path, environment)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path} is no TOML: {error}") from None
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None

    def url(self) -> Origin | None:
        """The queue, if it was said which."""
        if url := self._environment.get("BUCKETQ_URL"):
            return Origin(url, "BUCKETQ_URL")
        return Origin(str(self._tables["url"]), str(self.path)) if self._tables.get("url") else None

    def used_url(self) -> str:
        """The queue that a command without a URL works on; empty if there is none.

        Raises ConfigurationError if credentials of the environment would go to a server that only the file
        names: the folder may come from anybody.
        """
        if (found := self.url()) is None:
            return ""
        if found.origin != "BUCKETQ_URL" and (secret := self._secret_for(found.value)):
            raise ConfigurationError(
                f"{found.origin} alone does not decide where {secret} is sent. If you trust {found.value},"
                " set BUCKETQ_URL to it or pass it with --url"
            )
        return str(found.value)

    def _secret_for(self, url: str) -> str:
        """Which credentials of the environment the server at a URL could read and use elsewhere."""
        from urllib.parse import parse_qs, urlsplit

        from bucketq.url import BROKER_SCHEMES

        parts = urlsplit(url)
        if parts.scheme in BROKER_SCHEMES:
            return next((name for name in _TOKEN_VARIABLES if self._environment.get(name)), "")
        # A signature for S3 is good for one host. The others send a token, or sign without the host.
        is_chosen = parts.scheme in ("gs", "az") and "endpoint_url" in parse_qs(parts.query)
        return f"the credential for {parts.scheme}://" if is_chosen else ""

    def settings(self) -> Settings:
        """How an embedded queue is to behave, for commands that have no flags for it."""
        return Settings(**self._of_queue)

    def check(self, root: "Context") -> None:
        """Raise ConfigurationError for names that are no settings, and values that they cannot have."""
        if url := self.url():
            refuse_secret(url.value, f"the URL of {url.origin}")
        known = list(settings_of(root.command))
        self._check_variables({variable_of(one.name) for one in known} | _OTHER_VARIABLES)
        by_section: dict[str, dict[str, Setting]] = {}
        for one in known:
            by_section.setdefault(one.section, {})[one.name] = one
        for key, value in self._tables.items():
            if key == "url":
                if not isinstance(value, str):
                    raise ConfigurationError(f"{self.path}: url is a text in quotes, not {value!r}")
                continue
            if key not in by_section or not isinstance(value, dict):
                belongs = [section for section, names in by_section.items() if key in names]
                meant = f"; it belongs in [{belongs[0]}]" if belongs else _meant(key, ["url", *by_section])
                raise ConfigurationError(f"{self.path} has a strange {key!r} in it{meant}")
            for name, content in value.items():
                if name not in by_section[key]:
                    meant = _meant(name, by_section[key])
                    raise ConfigurationError(f"{self.path} has no setting {name!r} in [{key}]{meant}")
                where = f"{self.path}, [{key}] {name}"
                given = _checked(by_section[key][name], _text_of(content, by_section[key][name]), where, root)
                if key == QUEUE:
                    self._of_queue[name] = given
        for name, one in by_section[QUEUE].items():
            # One that is empty says nothing, here as for commands that have the flag.
            if text := self._environment.get(variable_of(name)):
                self._of_queue[name] = _checked(one, text, variable_of(name), root)

    def default_map(self, root: "Context") -> dict[str, Any]:
        """The file, as the defaults of each command."""
        defaults: dict[str, Any] = {}
        for one in settings_of(root.command):
            table = self._tables.get(one.section, {})
            if one.name in table:
                inner = defaults
                for part in one.path:
                    inner = inner.setdefault(part, {})
                inner[one.name] = _text_of(table[one.name], one)
        return defaults

    def _check_variables(self, known: set[str]) -> None:
        for name, value in self._environment.items():
            if not name.startswith("BUCKETQ_") or name in known:
                continue
            if _OF_KUBERNETES.search(name) or value.startswith(("tcp://", "udp://")):
                continue
            raise ConfigurationError(f"the environment has {name}, which is no setting{_meant(name, known)}")


CURRENT: ContextVar[Configuration] = ContextVar("configuration")


def refuse_secret(url: str, what: str) -> None:
    """Raise ConfigurationError for a URL with credentials in it, which does not repeat them."""
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise ConfigurationError(
            f"{what} has credentials before its '@', where they end up in logs; give them by the environment"
        )


def settings_of(command: Any, path: tuple[str, ...] = ()) -> Iterator[Setting]:
    """The settings of a command and of those below it."""
    for name, below in getattr(command, "commands", {}).items():
        yield from settings_of(below, (*path, name))
    for option in command.params if path else ():
        if option.envvar is not None:
            yield Setting(_section(path, option.name), option.name, path, option)


def _section(path: tuple[str, ...], name: str) -> str:
    if name in _QUEUE_FIELDS:
        return QUEUE
    return {"replay": "pipeline"}.get(path[0], path[0])


def _checked(one: Setting, text: Any, where: str, root: "Context") -> Any:
    """The value that a text means, as the flag would have it."""
    from typer import BadParameter

    try:
        value = one.option.process_value(root, text)
        if one.section == QUEUE:
            Settings(**{one.name: value})
        return value
    except BadParameter as error:
        raise ConfigurationError(f"{where}: {error.message}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _text_of(value: Any, setting: Setting) -> Any:
    # As a flag would have it, so that 2.5 is as wrong for a port here as it is there.
    if setting.option.multiple:
        return [str(one) for one in (value if isinstance(value, list) else [value])]
    if isinstance(value, list | dict):
        raise ConfigurationError(f"[{setting.section}] {setting.name} takes one value, not {value!r}")
    return str(value)


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), 1)
    return f"; did you mean {close[0]}?" if close else "; `bucketq config` lists all settings"
