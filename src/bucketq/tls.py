"""Tls: the certificates of one side of an encrypted connection."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from bucketq.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Files in PEM: whom to trust, and, to show who oneself is, a certificate and its key.

    >>> Tls(ca="ca.pem", cert="worker.pem", key="worker.key").ca
    'ca.pem'
    """

    # Without one a client trusts whom its machine trusts, and a server asks nobody for a certificate.
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ConfigurationError("a certificate goes with its key: give both, or neither")

    def client_context(self) -> ssl.SSLContext:
        """What a client connects with. Raises ConfigurationError."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"the certificates cannot be used: {error}") from error
        return context

    def read(self, path: str | None) -> bytes | None:
        """The content of one of the files. Raises ConfigurationError."""
        try:
            return Path(path).read_bytes() if path is not None else None
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be read: {error}") from error
