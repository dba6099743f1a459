"""A broker whose disk stays full says so, also once that has cost it the lead."""

import time
from pathlib import Path

import pytest

import bucketq.sync
from bucketq import LocalFileSystemStorage, OutcomeUnknownError, StorageFullError
from bucketq.broker.broker import Beats
from tests.acceptance.hosted import hosted
from tests.acceptance.served import WAYS, url_of

FULL = "No space left on device; nothing was written"


@pytest.mark.parametrize("way", WAYS)
def test_clients_learn_that_the_disk_is_full_when_the_lead_ends_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    write = LocalFileSystemStorage._write

    def no_room(*_: object) -> str:
        raise StorageFullError(FULL)

    with (
        hosted(f"file://{tmp_path}/queue.json", beats=Beats(interval_s=0.1, timeout_s=0.5)) as broker,
        bucketq.sync.connect(url_of(way, broker)) as q,
    ):
        monkeypatch.setattr(LocalFileSystemStorage, "_write", no_room)
        with pytest.raises(StorageFullError, match=FULL):
            q.enqueue("waits while the lead ends")
        assert not broker.is_leading
        assert f"leading no more: no heartbeat was stored for too long: {FULL}" in caplog.text
        with pytest.raises(StorageFullError, match=FULL):
            q.enqueue("comes later")
        monkeypatch.setattr(LocalFileSystemStorage, "_write", write)
        until_leading(broker)
        job = q.enqueue("there is room")
        assert [one.id for one in q.jobs()] == [job.id]


def test_what_a_lost_answer_may_have_done_is_not_called_unwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, answers = LocalFileSystemStorage._write, iter([TimeoutError("no answer")])

    def unanswered_then_full(*given: object) -> str:
        if error := next(answers, None):
            raise error
        raise StorageFullError(FULL)

    with (
        hosted(f"file://{tmp_path}/queue.json", beats=Beats(interval_s=0.1, timeout_s=0.5)) as broker,
        bucketq.sync.connect(url_of("http", broker), settings=bucketq.Settings(retry_for_s=0.2)) as q,
    ):
        monkeypatch.setattr(LocalFileSystemStorage, "_write", unanswered_then_full)
        with pytest.raises(bucketq.BucketQError) as caught:
            q.enqueue("mail")
        assert isinstance(caught.value, OutcomeUnknownError), caught.value
        monkeypatch.setattr(LocalFileSystemStorage, "_write", write)


def until_leading(broker: "bucketq.broker.broker.Broker") -> None:
    until_s = time.monotonic() + 30
    while not broker.is_leading:
        assert time.monotonic() < until_s, "it does not lead again"
        time.sleep(0.02)
