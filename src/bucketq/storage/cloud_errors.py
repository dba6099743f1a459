"""What obstore's errors mean.

obstore's errors have no fields, only a text. The HTTP status, the service's own error code
and the way in which a request broke off are read from that text, and nothing else of it is
repeated: an error page may quote keys and signatures.
"""

import re
from typing import NamedTuple, Self

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from bucketq.errors import AccessDeniedError, SlowDownError, StorageError, UnusableStorageError

# All that obstore raises when a request fails.
FAILURES = (BaseError, OSError, ValueError)

_BUCKET_MISSING = {"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted"}
_ACCESS_DENIED = {"ExpiredToken", "InvalidToken", "TokenRefreshRequired"}
_SLOW_DOWN = {"SlowDown", "ServerBusy", "TooManyRequests", "Throttling", "ThrottlingException"}
# Where obstore asks for credentials when nobody has given any.
_METADATA_SERVICE = re.compile(r"/latest/api/token|computeMetadata/|/metadata/identity/|169\.254\.16")
_PROVIDER_FAILED = re.compile(r"External \w+ credential provider: (.*)")
_CHANGES = {"write", "create", "delete"}
# How rustls spells what is wrong with a certificate.
_BAD_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(\w+)")
_CERTIFICATE_IS = {
    "UnknownIssuer": "is of nobody whom this machine trusts; name its authority's file in SSL_CERT_FILE",
    "NotValidForName": "is for another name; use the name that it has",
    "NotValidForNameContext": "is for another name; use the name that it has",
    "Expired": "has expired; renew it",
    "ExpiredContext": "has expired; renew it",
}


class Failure(NamedTuple):
    """A failed request: the HTTP status and error code of the answer, or how it broke off."""

    error: Exception
    status: int | None
    code: str | None
    broke_off: str | None

    @classmethod
    def of(cls, error: Exception) -> Self:
        text = str(error)
        status = re.search(r"(?:returned non-2xx status code: |\(code: )(\d{3})", text)
        code = re.search(r"<Code>(\w+)</Code>", text)
        broke_off = re.search(r"HttpError \{\s*kind: (\w+)", text)
        # asyncio's own has no text.
        is_timeout = isinstance(error, TimeoutError)
        return cls(
            error,
            int(status[1]) if status else None,
            code[1] if code else None,
            broke_off[1] if broke_off else "Timeout" if is_timeout else None,
        )

    @property
    def is_missing_bucket(self) -> bool:
        return self.code in _BUCKET_MISSING

    @property
    def is_missing_object(self) -> bool:
        return isinstance(self.error, FileNotFoundError) and not self.is_missing_bucket

    @property
    def is_conflict(self) -> bool:
        """A condition of the request did not hold, or another request was at work."""
        is_refused = isinstance(self.error, PreconditionError | AlreadyExistsError)
        return is_refused and not self.is_missing_bucket

    @property
    def is_existing_object(self) -> bool:
        """A create-only request found an object; a bare 409 only found another request at work."""
        return self.is_conflict and (self.status != 409 or self.code == "BlobAlreadyExists")

    def as_storage_error(self, doing: str, url: str) -> StorageError:
        """Tell what happened to the object at `url`, and what to do next."""
        return self.caused(self._described(doing, url))

    def caused(self, error: StorageError) -> StorageError:
        """The error, with this failure as its cause, whose text is not repeated."""
        error.cause = self.error
        return error

    def _described(self, doing: str, url: str) -> StorageError:
        subject = f"cannot {doing} {url}"
        # Whoever asks has dealt with missing objects; what else is not found is the bucket.
        if self.is_missing_bucket or self.status == 404:
            bucket = url.split("/")[2]
            return UnusableStorageError(
                f"{subject}: there is no bucket {bucket!r}; create it, or correct its name"
            )
        if self._is_slow_down():
            return SlowDownError(f"{subject}: {self._answer(doing)}, which asks for fewer requests")
        if self._is_access_denied():
            return AccessDeniedError(
                f"{subject}: {self._answer(doing)}; check the credentials and their permissions"
            )
        if self.broke_off and _METADATA_SERVICE.search(str(self.error)):
            return AccessDeniedError(
                f"{subject}: no credentials were found; give them to the storage, "
                "or set the environment variables of your cloud"
            )
        if "redirect without LOCATION" in str(self.error):
            return UnusableStorageError(
                f"{subject}: the bucket is in another region; name that one in region_name"
            )
        return StorageError(f"{subject}: {self._answer(doing)}")

    def _is_slow_down(self) -> bool:
        return self.status in (429, 503) or self.code in _SLOW_DOWN

    def _is_access_denied(self) -> bool:
        if provider := _PROVIDER_FAILED.search(str(self.error)):
            # Whatever else keeps a provider from answering may pass.
            return provider[1].startswith("PermissionError")
        is_refused = isinstance(self.error, PermissionDeniedError | UnauthenticatedError)
        return is_refused or self.status in (401, 403) or self.code in _ACCESS_DENIED

    def _answer(self, doing: str) -> str:
        text = str(self.error)
        if provider := _PROVIDER_FAILED.search(text):
            return f"the credentials are not to be had: {provider[1]}"
        if self.status:
            return f"the storage answered {self.status}" + (f" {self.code}" if self.code else "")
        if bad := _BAD_CERTIFICATE.search(text):
            return f"the server's certificate {_CERTIFICATE_IS.get(bad[1], f'is not good: {bad[1]}')}"
        if self.broke_off == "Connect":
            return "no connection to the server, so nothing was sent; is it up, and is its address right?"
        if self.broke_off:
            is_late = self.broke_off == "Timeout"
            how = "no answer within the timeout" if is_late else "the connection broke before the answer"
            return f"{how}; the {doing} may have landed all the same" if doing in _CHANGES else how
        return text.partition("\n")[0]
