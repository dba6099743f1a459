"""open_storage: which storage a URL names, and which URLs are refused."""

from pathlib import Path
from typing import Any

import pytest

from bucketq.errors import ConfigurationError
from bucketq.storage import (
    AzureStorage,
    Bucket,
    GCSStorage,
    InMemoryStorage,
    LocalFileSystemStorage,
    S3Storage,
    open_storage,
)

S3_KEYS = {"access_key_id": "id", "secret_access_key": "secret"}
GCS_KEY = '{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}'
AZURE_KEY = "c2VjcmV0"


def test_memory_without_a_name_is_private() -> None:
    first, second = open_storage("memory://"), open_storage("memory://")
    assert isinstance(first, InMemoryStorage)
    assert first is not second


def test_memory_with_a_name_is_shared() -> None:
    assert open_storage("memory://shared") is open_storage("memory://shared")
    assert open_storage("memory://shared") is not open_storage("memory://other")
    assert open_storage("memory://shared/one") is not open_storage("memory://shared/two")


def test_file_takes_an_absolute_path(tmp_path: Path) -> None:
    storage = open_storage(f"file://{tmp_path}/queue.json")
    assert isinstance(storage, LocalFileSystemStorage)
    assert storage.path == tmp_path / "queue.json"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///data/my%20jobs/a%23b%3F%25.json", "/data/my jobs/a#b?%.json"),
        ("file:///data/%E6%97%A5%E6%9C%AC.json", "/data/日本.json"),
        ("file:///data/日本.json", "/data/日本.json"),
        ("file://localhost/data/queue.json", "/data/queue.json"),
        ("FILE:///data/queue.json", "/data/queue.json"),
    ],
)
def test_file_path_is_decoded(url: str, path: str) -> None:
    storage = open_storage(url)
    assert isinstance(storage, LocalFileSystemStorage)
    assert storage.path == Path(path)


@pytest.mark.parametrize(
    "url",
    ["file:queue.json", "file://queue.json", "file://folder/queue.json", "file://~/queue.json", "file://"],
)
def test_file_refuses_a_relative_path(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"absolute path: file:///var/lib/myapp/queue\.json"):
        open_storage(url)


def test_file_refuses_a_folder() -> None:
    with pytest.raises(ConfigurationError, match=r"add the queue's file name, as in /data/queue\.json"):
        open_storage("file:///data/")


@pytest.mark.parametrize(
    ("url", "options", "storage_class", "opened"),
    [
        ("s3://bucket/queues/jobs.json", S3_KEYS, S3Storage, "s3://bucket/queues/jobs.json"),
        ("S3://bucket/a%20b%3F.json", S3_KEYS, S3Storage, "s3://bucket/a b?.json"),
        (
            "gs://my_bucket/jobs.json",
            {"service_account_key": GCS_KEY},
            GCSStorage,
            "gs://my_bucket/jobs.json",
        ),
        (
            "az://container/jobs.json?account_name=mine",
            {"account_key": AZURE_KEY},
            AzureStorage,
            "az://container/jobs.json",
        ),
    ],
)
def test_cloud_urls(url: str, options: dict[str, Any], storage_class: type, opened: str) -> None:
    storage = open_storage(url, **options)
    assert isinstance(storage, storage_class)
    assert isinstance(storage, Bucket)
    assert storage.url == opened
    assert repr(storage) == f"{storage_class.__name__}({opened!r})"


def test_query_sets_options_and_keywords_win() -> None:
    url = "s3://bucket/key.json?endpoint_url=http://127.0.0.1:9000&region_name=eu-central-1"
    config = open_storage(url, **S3_KEYS)._store.config
    assert config["endpoint"] == "http://127.0.0.1:9000"
    assert config["region"] == "eu-central-1"
    config = open_storage(url, region_name="us-west-2", **S3_KEYS)._store.config
    assert config["region"] == "us-west-2"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "ftp://host/queue.json",
            "no storage has the scheme 'ftp'; known are memory://, file://, s3://, gs://, az://",
        ),
        ("/var/lib/queue.json", "a storage URL begins with one of memory://, file://, s3://, gs://, az://"),
        ("", "a storage URL begins with one of memory://"),
        ("s3://bucket", "names no object; one that does looks like s3://bucket/queues/jobs.json"),
        ("s3://bucket/", "names no object"),
        ("s3://bucket/folder/", "names no object"),
        ("gs:///key.json", "names no object; one that does looks like gs://bucket/queues/jobs.json"),
        ("s3://bucket/a//b.json", "names joined by single slashes"),
        ("s3://bucket/../b.json", "names joined by single slashes"),
        ("s3://bucket:9000/key.json", "'bucket:9000', which names no bucket"),
        ("s3://bucket/key.json#part", "has a '#'; write %23"),
        ("s3://[bucket/key.json", "cannot be read"),
        (
            "s3://bucket/key.json?region=eu",
            "cannot set 'region'; it can set account_name, endpoint_url, region_name",
        ),
        ("s3://bucket/key.json?region_name=a&region_name=b", "sets 'region_name' twice"),
        (
            "s3://bucket/key.json?account_name=mine",
            "s3:// storages have no option 'account_name'; they have access_key_id,",
        ),
        ("s3://bucket/key.json?endpoint_url=ftp://host", "endpoint_url takes an address like https://"),
        ("s3://bucket/key.json?endpoint_url=", "endpoint_url takes an address like https://"),
        ("memory://?region_name=eu", "memory:// storages have no option 'region_name'; they have none"),
        (
            "file:///data/queue.json?endpoint_url=x",
            "file:// storages have no option 'endpoint_url'; they have none",
        ),
    ],
)
def test_refused_urls(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_storage(url)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIDEXAMPLE:TOPSECRET@bucket/key.json",
        "s3://TOPSECRET@bucket/key.json",
        "s3://bucket/key.json?secret_access_key=TOPSECRET",
        "s3://bucket/key.json?session_token=TOPSECRET",
        "az://container/key.json?account_key=TOPSECRET",
        "az://container/key.json?sas_token=TOPSECRET",
        "gs://bucket/key.json?service_account_key=TOPSECRET",
        "s3://bucket/key.json?endpoint_url=http://user:TOPSECRET@127.0.0.1:9000",
        "s3://bucket/key.json?client_options=TOPSECRET",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_storage(url)
    assert "logs" in str(caught.value)
    assert "TOPSECRET" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"timeout": 3},
            "s3:// storages have no option 'timeout'; they have access_key_id, client_options, ",
        ),
        ({"bucket": "other"}, "have no option 'bucket'"),
        ({"access_key_id": "id"}, "access_key_id and secret_access_key only make sense together"),
        ({"session_token": "token"}, "session_token only makes sense with access_key_id"),
        ({"session": object()}, "session has no get_credentials(): object"),
        ({"client_options": {"timeout": "soon"}}, "these options make no storage"),
        ({"client_options": {"nonsense": "1"}}, "these options make no storage"),
    ],
)
def test_refused_s3_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_storage("s3://bucket/key.json", **options)
    assert message in str(caught.value)


def test_session_and_keys_exclude_each_other() -> None:
    class Session:
        def get_credentials(self) -> None: ...

    with pytest.raises(ConfigurationError, match="either a session or access_key_id"):
        open_storage("s3://bucket/key.json", session=Session(), **S3_KEYS)


@pytest.mark.parametrize(
    "options",
    [
        {"service_account_key": "{TOPSECRET"},
        {"service_account_key": '{"private_key": "TOPSECRET"}'},
        {"service_account_key": '{"private_key": "TOPSECRET", "client_email": "a", "private_key_id": "b"}'},
    ],
)
def test_bad_google_key_is_refused_and_not_repeated(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="these options make no storage") as caught:
        open_storage("gs://bucket/key.json", **options)
    assert "TOPSECRET" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"account_name": "mine", "account_key": "!TOPSECRET"}, "these options make no storage"),
        ({"account_name": "mine", "sas_token": "TOPSECRET"}, "these options make no storage"),
        (
            {"account_key": AZURE_KEY, "sas_token": "sv=1&sig=2"},
            "give one of account_key, sas_token and credential",
        ),
        ({"credential": "TOPSECRET"}, "credential has no get_token(): str"),
    ],
)
def test_bad_azure_options_are_refused_and_not_repeated(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_storage("az://container/key.json", **options)
    assert message in str(caught.value)
    assert "TOPSECRET" not in str(caught.value)


def test_requests_are_not_retried_and_have_a_time_limit() -> None:
    storage = S3Storage("bucket", "key.json", **S3_KEYS)
    for store, timeout in ((storage._store, "10s"), (storage.objects._bulk_store, "1day")):
        assert store.retry_config["max_retries"] == 0
        assert store.client_options == {"connect_timeout": "5s", "timeout": timeout}


def test_given_client_options_win() -> None:
    options = {"timeout": "60s", "user_agent": "mine"}
    storage = S3Storage("b", "k", endpoint_url="http://127.0.0.1:9", client_options=options, **S3_KEYS)
    for store in (storage._store, storage.objects._bulk_store):
        assert store.client_options == {"connect_timeout": "5s", "allow_http": "true", **options}
