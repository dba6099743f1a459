"""Credentials of the clouds' own Python clients, given to a storage."""

import asyncio
from typing import Any

import aioboto3
import boto3
import botocore.session
import google.cloud.storage
import google.oauth2.credentials
import pytest
from google.auth.credentials import AnonymousCredentials

from bucketq.errors import AccessDeniedError, ConfigurationError, StorageError
from bucketq.storage import AzureStorage, GCSStorage, S3Storage
from tests.contract.fault_proxy import Answer, fault_proxy
from tests.contract.gcs_fake import TOKEN
from tests.contract.servers import BUCKET, Server

KEYS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}


def _botocore_session() -> Any:
    session = botocore.session.Session()
    session.set_credentials("testing", "testing")
    return session


@pytest.mark.parametrize(
    "make_session",
    [lambda: boto3.Session(**KEYS), _botocore_session, lambda: aioboto3.Session(**KEYS)],
    ids=["boto3", "botocore", "aioboto3"],
)
async def test_session_signs_for_s3(seaweedfs: Server, make_session: Any) -> None:
    session = make_session()
    storage = S3Storage(
        bucket=BUCKET,
        key=f"{type(session).__module__}.json",
        region_name="us-east-1",
        endpoint_url=seaweedfs.endpoint_url,
        session=session,
    )
    etag = await storage.write(b"signed")
    assert await storage.read() == (b"signed", etag)


@pytest.mark.parametrize(
    "variables", [["AWS_ENDPOINT"], ["AWS_ENDPOINT_URL"], ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]]
)
async def test_the_environment_says_where_s3_is(
    seaweedfs: Server, monkeypatch: pytest.MonkeyPatch, variables: list[str]
) -> None:
    """As other tools have it: the variable of the service wins over that of all services."""
    for variable in variables:
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    monkeypatch.setenv(variables[0], seaweedfs.endpoint_url)
    options = {name: value for name, value in seaweedfs.options.items() if name != "endpoint_url"}
    storage = S3Storage(BUCKET, f"by {variables[0]}.json", **options)
    etag = await storage.write(b"found")
    assert await storage.read() == (b"found", etag)
    assert await S3Storage(BUCKET, f"by {variables[0]}.json", **seaweedfs.options).read() == (
        b"found",
        etag,
    )


async def test_session_with_a_wrong_secret_is_denied(seaweedfs: Server) -> None:
    session = boto3.Session("testing", "wrong-secret", region_name="us-east-1")
    storage = S3Storage(BUCKET, "queue.json", endpoint_url=seaweedfs.endpoint_url, session=session)
    with pytest.raises(AccessDeniedError, match="403"):
        await storage.read()


class CountingSession:
    """A session that counts how often it is asked, and may answer with an error."""

    region_name = "eu-central-1"

    def __init__(self, error: Exception | None = None) -> None:
        self.asked = 0
        self.error = error

    def get_credentials(self) -> Any:
        self.asked += 1
        if self.error:
            raise self.error
        return boto3.Session(**KEYS).get_credentials()


async def test_session_is_not_asked_for_each_request(seaweedfs: Server) -> None:
    session = CountingSession()
    storage = S3Storage(BUCKET, "counted.json", endpoint_url=seaweedfs.endpoint_url, session=session)
    for _ in range(3):
        await storage.read()
        # Within a tenth of a second obstore never asks twice.
        await asyncio.sleep(0.15)
    assert session.asked == 1


async def test_session_gives_the_region(seaweedfs: Server) -> None:
    with fault_proxy(seaweedfs.endpoint_url) as proxy:
        proxy.fault = Answer(400, "Any")
        for region_name, expected in ((None, "eu-central-1"), ("us-west-2", "us-west-2")):
            storage = S3Storage(
                BUCKET,
                "queue.json",
                endpoint_url=proxy.endpoint_url,
                session=CountingSession(),
                region_name=region_name,
            )
            with pytest.raises(StorageError):
                await storage.read()
            assert f"/{expected}/s3/" in proxy.requests[-1].headers["authorization"]


async def test_session_without_credentials_is_denied(seaweedfs: Server) -> None:
    class EmptySession:
        def get_credentials(self) -> None:
            return None

    storage = S3Storage(BUCKET, "queue.json", endpoint_url=seaweedfs.endpoint_url, session=EmptySession())
    with pytest.raises(AccessDeniedError, match="the session has no credentials"):
        await storage.read()


async def test_session_that_fails_may_recover(seaweedfs: Server) -> None:
    session = CountingSession(RuntimeError("the token service is busy"))
    storage = S3Storage(BUCKET, "recovered.json", endpoint_url=seaweedfs.endpoint_url, session=session)
    with pytest.raises(StorageError, match="RuntimeError: the token service is busy") as caught:
        await storage.read()
    assert not isinstance(caught.value, AccessDeniedError), "which would not be retried"
    session.error = None
    assert await storage.read() == (b"", None)


@pytest.mark.parametrize("session_token", [None, "given-token"])
async def test_given_s3_options_win_over_the_environment(
    seaweedfs: Server, monkeypatch: pytest.MonkeyPatch, session_token: str | None
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "environment")
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    with fault_proxy(seaweedfs.endpoint_url) as proxy:
        proxy.fault = Answer(404, "NoSuchKey")
        options = {**seaweedfs.options, "endpoint_url": proxy.endpoint_url, "session_token": session_token}
        assert await S3Storage(BUCKET, "queue.json", **options).read() == (b"", None)
        headers = proxy.requests[-1].headers
        assert "Credential=testing/" in headers["authorization"]
        assert "/us-east-1/s3/" in headers["authorization"]
        assert headers.get("x-amz-security-token") == session_token


@pytest.mark.parametrize(
    ("given", "sent"),
    [({"account_key": "a2V5"}, "SharedKey any:"), ({"sas_token": "sv=2021-08-06&sig=given"}, "")],
    ids=["key", "sas"],
)
async def test_given_azure_options_win_over_the_environment(
    azurite: Server, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], sent: str
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_TOKEN", "environment")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "ZW52aXJvbm1lbnQ=")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    with fault_proxy(azurite.endpoint_url) as proxy:
        proxy.fault = Answer(404, "BlobNotFound")
        storage = AzureStorage(
            BUCKET, "queue.json", account_name="any", endpoint_url=proxy.endpoint_url, **given
        )
        assert await storage.read() == (b"", None)
        authorization = proxy.requests[-1].headers.get("authorization", "")
        assert authorization.startswith(sent)
        assert bool(authorization) == bool(sent)


def test_google_token_in_the_environment_is_refused_beside_a_key(
    gcs: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "environment")
    with pytest.raises(ConfigurationError, match="GOOGLE_BEARER_TOKEN is set and would win"):
        GCSStorage(BUCKET, "queue.json", **gcs.options)


def _google_client(gcs: Server, credentials: Any) -> Any:
    options = {"api_endpoint": gcs.endpoint_url}
    return google.cloud.storage.Client("project", credentials=credentials, client_options=options)


@pytest.mark.parametrize(
    "credentials",
    [google.oauth2.credentials.Credentials(TOKEN), AnonymousCredentials()],
    ids=["token", "anonymous"],
)
async def test_google_client_signs_for_gcs(gcs: Server, credentials: Any) -> None:
    client = _google_client(gcs, credentials)
    blob_name = f"{type(credentials).__name__}.json"
    storage = GCSStorage(bucket_name=BUCKET, blob_name=blob_name, client=client)
    etag = await storage.write(b"signed")
    assert await storage.read() == (b"signed", etag)


async def test_google_client_with_a_wrong_token_is_denied(gcs: Server) -> None:
    client = _google_client(gcs, google.oauth2.credentials.Credentials("wrong-token"))
    storage = GCSStorage(bucket_name=BUCKET, blob_name="queue.json", client=client)
    with pytest.raises(AccessDeniedError, match="401") as caught:
        await storage.read()
    assert "wrong-token" not in f"{caught.value} {caught.value.cause}"


class RefreshedCredentials:
    """Google credentials that have a token only after a refresh."""

    universe_domain = "googleapis.com"
    valid = False
    token = "expired"
    expiry = None

    def refresh(self, request: Any) -> None:
        assert callable(request)
        self.token, self.valid = TOKEN, True


async def test_google_token_is_refreshed(gcs: Server) -> None:
    class Client:
        _credentials = RefreshedCredentials()
        api_endpoint = gcs.endpoint_url

    storage = GCSStorage(bucket_name=BUCKET, blob_name="refreshed.json", client=Client())
    etag = await storage.write(b"signed")
    assert await storage.read() == (b"signed", etag)


class AzureToken:
    token = "token-for-azure"
    expires_on = 4_000_000_000


class SyncCredential:
    def get_token(self, scope: str) -> AzureToken:
        assert scope == "https://storage.azure.com/.default"
        return AzureToken()


class AsyncCredential:
    async def get_token(self, scope: str) -> AzureToken:
        return SyncCredential().get_token(scope)


@pytest.mark.parametrize("credential", [SyncCredential(), AsyncCredential()], ids=["sync", "async"])
async def test_azure_credential_gives_the_token(azurite: Server, credential: Any) -> None:
    # Azurite takes tokens over HTTPS only, so this looks at what is sent to it.
    with fault_proxy(azurite.endpoint_url) as proxy:
        proxy.fault = Answer(404, "BlobNotFound")
        storage = AzureStorage(
            BUCKET, "queue.json", account_name="any", credential=credential, endpoint_url=proxy.endpoint_url
        )
        assert await storage.read() == (b"", None)
        assert proxy.requests[-1].headers["authorization"] == "Bearer token-for-azure"
