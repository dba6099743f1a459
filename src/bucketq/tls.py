"""Tls: the certificates of one side of an encrypted connection."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import NamedTuple

from bucketq.errors import ConfigurationError


class Pem(NamedTuple):
    """The content of the files; None for those that are not given."""

    ca: bytes | None
    cert: bytes | None
    key: bytes | None


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Files in PEM: whom to trust, and, to show who oneself is, a certificate and its key.

    >>> Tls(ca="ca.pem", cert="worker.pem", key="worker.key").ca
    'ca.pem'
    """

    # Without one a client trusts whom its machine trusts (by gRPC, whom grpcio does), and a server asks
    # nobody for a certificate.
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ConfigurationError("a certificate goes with its key: give both, or neither")

    @classmethod
    def from_environment(cls) -> "Tls | None":
        """What BUCKETQ_CA, BUCKETQ_CERT and BUCKETQ_KEY say; None if nothing."""
        said = {name: os.environ.get(f"BUCKETQ_{name.upper()}") for name in ("ca", "cert", "key")}
        given = {name: path for name, path in said.items() if path}
        return cls(**given) if given else None

    def client_context(self) -> ssl.SSLContext:
        """What a client connects with. Raises ConfigurationError."""
        with self._told_errors():
            context = ssl.create_default_context(cafile=self.ca)
            self._show(context)
        return context

    def server_context(self) -> ssl.SSLContext:
        """What a server listens with; with `ca`, clients need a certificate. Raises ConfigurationError."""
        if self.cert is None:
            raise ConfigurationError("a server needs a certificate and its key")
        with self._told_errors():
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.ca)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.verify_mode = ssl.CERT_REQUIRED if self.ca is not None else ssl.CERT_NONE
            self._show(context)
        return context

    def read(self) -> "Pem":
        """The content of the files, for those who take no context. Raises ConfigurationError."""
        with self._told_errors():
            return Pem(*(Path(path).read_bytes() if path else None for path in astuple(self)))

    def _show(self, context: ssl.SSLContext) -> None:
        if self.cert is not None:
            # Without a password OpenSSL would ask for that of an encrypted key, and wait for ever.
            context.load_cert_chain(self.cert, self.key, password="")

    @contextmanager
    def _told_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            given = ", ".join(path for path in astuple(self) if path)
            reason = error.strerror or str(error)
            raise ConfigurationError(
                f"these certificates and keys cannot be used ({given}): {reason}. They are files in PEM, and"
                " the key is that of the certificate, and not encrypted."
            ) from error
