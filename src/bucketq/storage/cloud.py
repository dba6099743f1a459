"""S3Storage, GCSStorage, AzureStorage: a queue in a bucket, through obstore.

    write(if_match=None)     PUT If-None-Match: *       create, or refuse
    write(if_match=etag)     PUT If-Match: etag         replace that version, or refuse
    read_if_changed(etag)    GET If-None-Match: etag    304 when unchanged

GCS puts generation numbers in the place of etags. obstore's own retries are off: an
attempt that landed and lost its answer would be refused when repeated, and look like
somebody else's write. Whoever calls retries, and looks first.

Some servers that speak S3 ignore the conditions, and would lose jobs. So a queue has its
storage proven before its first write.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError, NotModifiedError
from obstore.store import AzureStore, GCSStore, S3Store

from bucketq.errors import CASConflictError, ConfigurationError, ObjectNotFoundError, UnusableStorageError
from bucketq.storage.cloud_errors import FAILURES, Failure
from bucketq.storage.cloud_objects import TIMEOUT_S, CloudObjects
from bucketq.storage.credentials import (
    ClientCredentials,
    KeyCredentials,
    SessionCredentials,
    TokenCredentials,
)
from bucketq.storage.port import ObjectStoragePort, side_prefix
from bucketq.storage.proof import prove
from bucketq.storage.runtime import enter_runtime

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta, PutMode, PutResult, UpdateVersion
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_NO_RETRIES: "RetryConfig" = {"max_retries": 0}
_TIMEOUTS: "ClientConfig" = {"connect_timeout": "5s", "timeout": f"{TIMEOUT_S}s"}
# Out of the way of a limit by size, which obstore has not: its `timeout` is one for all requests
# of a store, and its `read_timeout` runs on while an upload is being sent.
_BULK_TIMEOUTS: "ClientConfig" = {**_TIMEOUTS, "timeout": "1day"}
# obstore's skip_signature spares only reads from asking for credentials; this spares writes too.
_NO_ACCOUNT = '{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}'

OpenStore = Callable[..., "ObjectStore"]


class CloudStorage:
    """One object in a bucket, whichever cloud it is in."""

    scheme: ClassVar[str]

    def __init__(
        self,
        open_store: OpenStore,
        http: "ClientConfig",
        bucket: str,
        key: str,
        endpoint_url: str | None,
    ) -> None:
        self._bucket_url = f"{self.scheme}://{bucket}/"
        self.url = self._bucket_url + key
        self.endpoint_url = endpoint_url
        # What is proven of one queue's storage is proven of every queue's in the same bucket.
        self._place = self._bucket_url, endpoint_url
        self._store = _build(open_store, {**_TIMEOUTS, **http})
        self._key = key
        bulk_store = _build(open_store, {**_BULK_TIMEOUTS, **http})
        self.objects = CloudObjects(
            self._store,
            bulk_store,
            self._bucket_url,
            side_prefix(key),
            is_limited_by_size="timeout" not in http,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def read(self) -> tuple[bytes, str | None]:
        return await self._read({})

    async def read_if_changed(self, etag: str | None) -> tuple[bytes, str | None] | None:
        try:
            found = await self._read({"if_none_match": f'"{etag}"'} if etag else {})
        except NotModifiedError:
            return None
        # Not every server heeds If-None-Match.
        return None if found[1] == etag else found

    async def read_version(self, version: str) -> bytes:
        """The object as it was in a version that the bucket has kept. Raises ObjectNotFoundError."""
        content, etag = await self._read({"version": version})
        if etag is None:
            raise ObjectNotFoundError(
                f"{self.url} has no version {version!r}; whether the bucket keeps any, `bucketq doctor` tells"
            )
        return content

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        enter_runtime()
        mode: PutMode = "create" if if_match is None else self._version(if_match)
        try:
            return self._etag(await obstore.put_async(self._store, self._key, content, mode=mode))
        except FAILURES as error:
            failure = Failure.of(error)
            if failure.is_conflict or (if_match is not None and failure.is_missing_object):
                expected = "missing" if if_match is None else f"at etag {if_match}"
                raise CASConflictError(f"{self.url} is not {expected} any more") from error
            raise failure.as_storage_error("write", self.url) from error

    async def prove(self) -> None:
        """Try whether the server honours conditions, once in a process. Raises UnusableStorageError."""
        await prove(self, self._place)

    def beside(self, name: str) -> ObjectStoragePort:
        """An object beside the queue, to be read and written in the way of the queue."""
        other = copy(self)
        other._key = self.objects.key(name)
        other.url = self._bucket_url + other._key
        return other

    async def keeps_versions(self) -> bool | None:
        """Whether the bucket keeps what is overwritten; None where the cloud does not tell."""
        return (await self._head())["version"] not in (None, "null")

    async def _head(self) -> "ObjectMeta":
        enter_runtime()
        try:
            return await obstore.head_async(self._store, self._key)
        except FAILURES as error:
            failure = Failure.of(error)
            if failure.is_missing_object:
                raise failure.caused(ObjectNotFoundError(f"no object at {self.url}")) from error
            raise failure.as_storage_error("read", self.url) from error

    async def _read(self, options: "GetOptions") -> tuple[bytes, str | None]:
        enter_runtime()
        try:
            answer = await obstore.get_async(self._store, self._key, options=options)
            etag = self._etag(answer.meta)
            if "version" in options and answer.meta["version"] != options["version"]:
                # A bucket that keeps none answers with the object as it is now.
                return b"", None
            return bytes(await answer.bytes_async()), etag
        except NotModifiedError:
            raise
        except FAILURES as error:
            failure = Failure.of(error)
            if failure.is_missing_object:
                return b"", None
            raise failure.as_storage_error("read", self.url) from error

    def _etag(self, meta: "ObjectMeta | PutResult") -> str:
        etag = meta["e_tag"]
        if not etag:
            raise UnusableStorageError(f"{self.url} has no ETag; a queue needs a storage that gives them")
        return etag.removeprefix("W/").strip('"')

    def _version(self, etag: str) -> "UpdateVersion":
        return {"e_tag": f'"{etag}"'}


class S3Storage(CloudStorage):
    """A queue in a bucket of Amazon S3, or of a server that speaks S3 and heeds If-Match.

    >>> storage = S3Storage(bucket="my-bucket", key="queues/jobs.json")
    >>> storage = S3Storage(bucket="b", key="jobs.json", endpoint_url="http://localhost:9000")

    Credentials come from `access_key_id` and `secret_access_key` (and `session_token`), or
    from `session`: any boto3, botocore or aioboto3 session; or else from the environment
    (`AWS_ACCESS_KEY_ID` …), a web identity, or the role of the container or machine. For a
    profile, give `session=boto3.Session(profile_name=…)`. Without an `endpoint_url` it is that
    of AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or AWS_ENDPOINT. `client_options` are obstore's,
    such as `{"timeout": "60s"}`; by default a request may take 10 seconds, and longer for
    large objects beside the queue.
    Raises ConfigurationError when the arguments make no sense.
    """

    scheme = "s3"

    def __init__(
        self,
        bucket: str,
        key: str,
        *,
        region_name: str | None = None,
        endpoint_url: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        session_token: str | None = None,
        session: Any = None,
        client_options: "Mapping[str, Any] | None" = None,
    ) -> None:
        _check_names("bucket", bucket, "key", key)
        if bool(access_key_id) != bool(secret_access_key):
            raise ConfigurationError("access_key_id and secret_access_key only make sense together")
        if session_token and not access_key_id:
            raise ConfigurationError("session_token only makes sense with access_key_id")
        if session is not None and access_key_id:
            raise ConfigurationError("give either a session or access_key_id, not both")
        if session is not None and not hasattr(session, "get_credentials"):
            raise ConfigurationError(f"session has no get_credentials(): {type(session).__name__}")
        # obstore would look there by itself, but then refuse an address that begins with http://.
        if endpoint_url is None:
            endpoint_url = _set_in("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
        provider: KeyCredentials | SessionCredentials | None = None
        if access_key_id and secret_access_key:
            provider = KeyCredentials(access_key_id, secret_access_key, session_token)
        elif session is not None:
            provider = SessionCredentials(session)
        config = _present(
            region=region_name or getattr(session, "region_name", None),
            # Twice, because obstore lets the environment's second name win over our first.
            endpoint=endpoint_url,
            aws_endpoint_url_s3=endpoint_url,
            credential_provider=provider,
            virtual_hosted_style_request=False if endpoint_url else None,
        )
        http = _client_options(endpoint_url, client_options)
        # Not every server knows the bulk request that obstore would send for one object.
        open_store = partial(S3Store, bucket, disable_bulk_delete=True, **config)
        super().__init__(open_store, http, bucket, key, endpoint_url)

    def _version(self, etag: str) -> "UpdateVersion":
        # Without quotes: Ceph never matches an If-Match with them, and the others take both.
        return {"e_tag": etag}


class GCSStorage(CloudStorage):
    """A queue in a bucket of Google Cloud Storage.

    >>> storage = GCSStorage(bucket_name="my-bucket", blob_name="queues/jobs.json")

    Credentials come from `client`, a google.cloud.storage client; or from
    `service_account_key`, the JSON text of a key; or else from the environment
    (`GOOGLE_APPLICATION_CREDENTIALS` …) or the machine's service account. GCS takes about
    one write a second to one object. `client_options` are obstore's.
    Raises ConfigurationError when the arguments make no sense.
    """

    scheme = "gs"

    def __init__(
        self,
        bucket_name: str,
        blob_name: str,
        *,
        client: Any = None,
        service_account_key: str | None = None,
        endpoint_url: str | None = None,
        client_options: "Mapping[str, Any] | None" = None,
    ) -> None:
        _check_names("bucket_name", bucket_name, "blob_name", blob_name)
        if client is not None and service_account_key:
            raise ConfigurationError("give either a client or a service_account_key, not both")
        provider = None
        if client is not None:
            credentials = getattr(client, "_credentials", None)
            if credentials is None:
                raise ConfigurationError(f"client has no credentials: {type(client).__name__}")
            endpoint_url = endpoint_url or getattr(client, "api_endpoint", None)
            if type(credentials).__name__ == "AnonymousCredentials":
                service_account_key = _NO_ACCOUNT
            else:
                provider = ClientCredentials(credentials)
        if service_account_key and os.environ.get("GOOGLE_BEARER_TOKEN"):
            raise ConfigurationError("GOOGLE_BEARER_TOKEN is set and would win over what was given; unset it")
        config = _present(
            service_account_key=service_account_key,
            base_url=endpoint_url,
            credential_provider=provider,
        )
        http = _client_options(endpoint_url, client_options)
        open_store = partial(GCSStore, bucket_name, **config)
        super().__init__(open_store, http, bucket_name, blob_name, endpoint_url)

    async def read_if_changed(self, etag: str | None) -> tuple[bytes, str | None] | None:
        # GCS compares If-None-Match with a hash of the content, and equal content can come
        # back under a new generation; so the generation is looked at first.
        return None if etag == await self._generation() else await self.read()

    async def keeps_versions(self) -> bool | None:
        # Every object of GCS has a generation, whether the ones before are kept or not.
        return None

    async def _generation(self) -> str | None:
        try:
            return self._etag(await self._head())
        except ObjectNotFoundError:
            return None

    def _etag(self, meta: "ObjectMeta | PutResult") -> str:
        generation = meta["version"]
        if not generation:
            raise UnusableStorageError(f"{self.url} has no generation; is this endpoint really GCS?")
        return generation

    def _version(self, etag: str) -> "UpdateVersion":
        return {"version": etag}


class AzureStorage(CloudStorage):
    """A queue in a container of Azure Blob Storage.

    >>> storage = AzureStorage("my-container", "queues/jobs.json", account_name="mine")

    Credentials come from `account_key`, `sas_token`, or `credential`: any of azure.identity's;
    or else from the environment (`AZURE_STORAGE_ACCOUNT_KEY` …) or the machine's identity.
    For Azurite give `endpoint_url="http://127.0.0.1:10000/devstoreaccount1"`.
    `client_options` are obstore's. Raises ConfigurationError when the arguments make no sense.
    """

    scheme = "az"

    def __init__(
        self,
        container: str,
        blob_name: str,
        *,
        account_name: str | None = None,
        account_key: str | None = None,
        sas_token: str | None = None,
        credential: Any = None,
        endpoint_url: str | None = None,
        client_options: "Mapping[str, Any] | None" = None,
    ) -> None:
        _check_names("container", container, "blob_name", blob_name)
        if sum(map(bool, (account_key, sas_token, credential))) > 1:
            raise ConfigurationError("give one of account_key, sas_token and credential")
        if credential is not None and not hasattr(credential, "get_token"):
            raise ConfigurationError(f"credential has no get_token(): {type(credential).__name__}")
        config = _present(
            account_name=account_name,
            account_key=account_key,
            sas_key=sas_token,
            # Named, or else the environment's credentials and emulator would win over what was given.
            credential_type="access_key" if account_key else "sas_token" if sas_token else None,
            use_emulator=False if endpoint_url else None,
            endpoint=endpoint_url,
            credential_provider=TokenCredentials(credential) if credential is not None else None,
        )
        http = _client_options(endpoint_url, client_options)
        open_store = partial(AzureStore, container, **config)
        super().__init__(open_store, http, container, blob_name, endpoint_url)


def _check_names(bucket_argument: str, bucket: str, key_argument: str, key: str) -> None:
    if not re.fullmatch(r"[\w.$-]+", bucket):
        raise ConfigurationError(f"{bucket_argument} is {bucket!r}, which names no bucket")
    if not {"", ".", ".."}.isdisjoint(key.split("/")):
        raise ConfigurationError(
            f"{key_argument} is {key!r}; it takes names joined by single slashes, like queues/jobs.json"
        )


def _set_in(*variables: str) -> str | None:
    """What the first of these variables says that says anything."""
    return next((said for name in variables if (said := os.environ.get(name))), None)


def _present(**config: Any) -> dict[str, Any]:
    return {name: value for name, value in config.items() if value is not None}


def _client_options(endpoint_url: str | None, options: Mapping[str, Any] | None) -> "ClientConfig":
    is_http = False
    if endpoint_url is not None:
        url = urlsplit(endpoint_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ConfigurationError("endpoint_url takes an address like https://storage.example.com:9000")
        if url.username or url.password or url.query:
            raise ConfigurationError("endpoint_url takes an address and no credentials: they end up in logs")
        is_http = url.scheme == "http"
    return cast("ClientConfig", {**({"allow_http": True} if is_http else {}), **(options or {})})


def _build(open_store: OpenStore, http: "ClientConfig") -> "ObjectStore":
    try:
        return open_store(client_options=http, retry_config=_NO_RETRIES)
    except (BaseError, TypeError, ValueError) as error:
        # Only the first line, and no cause: what follows repeats the arguments, secrets too.
        message = str(error).partition("\n")[0]
    raise ConfigurationError(f"these options make no storage: {message}")
