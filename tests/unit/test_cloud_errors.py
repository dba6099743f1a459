"""What is read from the texts of obstore's errors, beyond what the servers of the tests answer."""

import pickle

import pytest
from obstore.exceptions import AlreadyExistsError, GenericError

from bucketq.errors import AccessDeniedError, SlowDownError, StorageError, UnusableStorageError
from bucketq.storage.cloud_errors import Failure

URL = "az://container/jobs/name"


@pytest.mark.parametrize(
    ("status", "error_type"), [(403, AccessDeniedError), (503, SlowDownError), (500, StorageError)]
)
def test_azure_tells_the_status_of_a_delete_within_a_batch(
    status: int, error_type: type[StorageError]
) -> None:
    text = (
        f"Generic MicrosoftAzure error: Bulk delete request failed for key jobs/name: Reason (code: {status})"
        f'\n\nDebug source:\nGeneric {{\n    source: DeleteFailed {{ code: "{status}" }},\n}}'
    )
    error = Failure.of(GenericError(text)).as_storage_error("delete", URL)
    assert type(error) is error_type
    assert str(error).startswith(f"cannot delete {URL}: the storage answered {status}")


def test_azure_tells_that_a_blob_exists_by_409() -> None:
    text = "Server returned non-2xx status code: 409 Conflict: <Error><Code>BlobAlreadyExists</Code></Error>"
    assert Failure.of(AlreadyExistsError(text)).is_existing_object


def test_wrong_region_is_told() -> None:
    text = "Received redirect without LOCATION, this normally indicates a wrong region\n\nDebug"
    error = Failure.of(GenericError(text)).as_storage_error("read", "s3://bucket/key")
    assert isinstance(error, UnusableStorageError)
    assert str(error) == (
        "cannot read s3://bucket/key: the bucket is in another region; name that one in region_name"
    )


def test_only_the_first_line_of_an_unknown_text_is_repeated() -> None:
    error = Failure.of(GenericError("Something new\n\nDebug source:\nTOPSECRET")).as_storage_error(
        "read", URL
    )
    assert str(error) == f"cannot read {URL}: Something new"
    assert isinstance(error.cause, GenericError)


def test_a_storage_error_names_its_cause_once():
    full = OSError(28, "No space left on device", "queue.json")
    for error, text in (
        (StorageError("write failed", OSError("disk full")), "write failed: disk full"),
        (StorageError("write failed", full), "write failed: No space left on device"),
        (
            StorageError("could not write: No space left on device", full),
            "could not write: No space left on device",
        ),
        (StorageError("write failed", TimeoutError()), "write failed"),
        (StorageError("write failed"), "write failed"),
    ):
        assert str(error) == text
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), str(again.cause)) == (text, str(error.cause))
