"""verify: a sound queue passes, and every damage that somebody's hand can do is told, with where it is."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from bucketq import ConfigurationError, InMemoryStorage
from bucketq.testing.virtual_time import virtual_time
from bucketq.verify import verify
from tests.faults.faulty import FaultyStorage, queues_with

START = datetime(2026, 1, 1, tzinfo=UTC)
SMALL = {"hot_jobs_max": 10, "segment_jobs_max": 40, "payload_inline_max": 100, "archive_jobs_max": 5}
LARGE = b"x" * 101


broker = queues_with(**SMALL)


async def finish(q, count, entrypoint="done"):
    await q.enqueue_many(entrypoint, range(count))
    jobs = await q.dequeue(entrypoint, batch_size=count)
    assert await q.ack_many(jobs) == []


async def full_queue():
    """One of everything: 5 + 5 archived, 2 on their way, 1 dead, 1 running, 100 in segments, 2 large."""
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue_many("waiting", range(100))
        await q.enqueue("large", LARGE)
        await q.enqueue_many("large in a segment", [LARGE, *range(20)])
        for _ in range(2):
            await finish(q, 5)
            await asyncio.sleep(40)
        await finish(q, 1)
        await q.enqueue("dying", max_attempts=1)
        await q.nack((await q.dequeue("dying"))[0], "no")
        await q.enqueue("running")
        assert await q.dequeue("running")
        await asyncio.sleep(1)
    return storage


def names(storage, prefix):
    return sorted(name for name in storage.beside if name.startswith(prefix))


def edit(storage, name, change):
    content, _ = storage.beside[name]
    storage.beside[name] = change(content), START


async def edit_queue(storage, change):
    """Change queue.json, given as text, by hand."""
    content, etag = await storage.inner.read()
    changed = change(content)
    assert changed != content
    await storage.inner.write(changed, etag)


@virtual_time
async def check(damage):
    """The problems of a full queue after some damage."""

    storage = await full_queue()
    expected = await damage(storage)
    verdict = await verify(storage)
    assert not verdict.is_sound
    text = "\n".join(verdict.problems)
    assert all(part in text for part in expected), text
    return verdict


@virtual_time
async def test_a_sound_queue_passes_and_what_it_holds_is_counted():
    storage = await full_queue()
    before = storage.writes, storage.creates, storage.deletes
    verdict = await verify(storage)
    assert verdict.is_sound, verdict.problems
    assert verdict.notes == []
    assert (verdict.live, verdict.archived) == (100 + 1 + 21 + 1, 10 + 2)
    assert (verdict.payloads, verdict.segments) == (2, len(names(storage, "backlog/")))
    assert verdict.segments >= 4
    assert verdict.version == (await storage.document())["version"]
    assert (storage.writes, storage.creates, storage.deletes) == before, "it only reads"


@virtual_time
async def test_it_reads_each_object_once_and_no_payload_at_all():
    storage = await full_queue()
    before = storage.object_reads
    await verify(storage)
    objects = names(storage, "backlog/") + names(storage, "archive/")
    assert storage.object_reads - before == len(objects)


@virtual_time
async def test_progress_is_told_up_to_the_end():
    storage, told = await full_queue(), {}
    await verify(storage, lambda what, done, total: told.setdefault(what, []).append((done, total)))
    segments = len(names(storage, "backlog/"))
    assert told["segments"] == [(number, segments) for number in range(1, segments + 1)]
    assert told["archive"][:2] == [(1, 2), (2, 2)]
    assert set(told["archive"][2:]) <= {(2, 2)}


async def test_where_no_queue_is_there_is_a_problem():
    verdict = await verify(InMemoryStorage())
    assert verdict.problems == ["there is no queue at memory://"]


async def test_a_storage_of_two_methods_is_refused():
    class TwoMethods:
        def __init__(self):
            inner = InMemoryStorage()
            self.read, self.write = inner.read, inner.write

    with pytest.raises(ConfigurationError, match="two methods"):
        await verify(TwoMethods())


def test_a_segment_that_is_gone_is_named():
    async def delete(storage):
        name = names(storage, "backlog/")[0]
        del storage.beside[name]
        return [name]

    assert check(delete).segments >= 4, "the others are still looked at"


@pytest.mark.parametrize("left", [0, 10, 500, -1, -20])
def test_a_segment_that_is_cut_is_named(left):
    async def cut(storage):
        name = names(storage, "backlog/")[0]
        edit(storage, name, lambda content: content[:left])
        return [name]

    check(cut)


def test_a_segment_in_which_a_line_was_changed_is_named():
    async def change(storage):
        name = names(storage, "backlog/")[0]
        edit(storage, name, lambda content: content.replace(b'"entrypoint"', b'"entry', 1))
        return [name]

    check(change)


@pytest.mark.parametrize("which", [0, 1])
def test_a_payload_that_is_cut_is_named(which):
    async def cut(storage):
        name = names(storage, "payloads/")[which]
        edit(storage, name, lambda content: content[:50])
        return [f"{name}, the payload of job ", "has 50 bytes, not 101"]

    check(cut)


@pytest.mark.parametrize("which", [0, 1])
def test_a_payload_that_is_gone_is_named_with_its_job(which):
    async def delete(storage):
        name = names(storage, "payloads/")[which]
        del storage.beside[name]
        return [f"{name}, the payload of job ", "is missing"]

    check(delete)


def test_an_archive_object_that_is_gone_is_missed_on_its_day():
    async def delete(storage):
        del storage.beside[names(storage, "archive/")[0]]
        return ["the archive of 2026-01-01 holds 5 jobs, and queue.json counts 10"]

    check(delete)


def test_an_archive_that_is_gone_altogether_is_missed():
    async def delete(storage):
        for name in names(storage, "archive/"):
            del storage.beside[name]
        return ["the archive of 2026-01-01 holds 0 jobs, and queue.json counts 10"]

    check(delete)


def test_a_line_of_the_archive_that_cannot_be_read_is_named():
    async def change(storage):
        name = names(storage, "archive/")[1]
        edit(storage, name, lambda content: content.replace(b'"entrypoint"', b'"entry', 1))
        return [f"{name}, line 2: ", "holds 9 jobs, and queue.json counts 10"]

    check(change)


def test_an_archive_object_that_is_cut_is_named():
    async def cut(storage):
        name = names(storage, "archive/")[1]
        edit(storage, name, lambda content: content[:-100])
        return [f"{name}, line 6: it ends too soon"]

    check(cut)


def test_a_line_that_was_taken_out_of_the_archive_is_missed():
    async def take(storage):
        name = names(storage, "archive/")[0]
        edit(storage, name, lambda content: b"[\n" + content.split(b",\n", 1)[1])
        return ["the archive of 2026-01-01 holds 9 jobs, and queue.json counts 10"]

    check(take)


def test_an_archive_object_that_was_copied_is_told_with_its_jobs():
    async def copy(storage):
        name = names(storage, "archive/")[0]
        ids = [line["id"] for line in json.loads(storage.beside[name][0])]
        storage.beside["archive/2026-01-01T00/000000000001.json"] = storage.beside[name]
        return [f"job {job_id} is twice: in the archive of 2026-01-01T00" for job_id in ids]

    check(copy)


def test_a_job_that_is_live_and_archived_is_told():
    async def put_back(storage):
        name = names(storage, "archive/")[0]
        archived = json.loads(storage.beside[name][0])[0]["id"]
        running = (await storage.document())["jobs"][-1]["id"]
        await edit_queue(storage, lambda content: content.replace(running.encode(), archived.encode()))
        return [f"job {archived} is twice: in queue.json and in the archive of 2026-01-01T00"]

    check(put_back)


def test_a_dead_job_may_be_in_the_archive_once_and_not_twice():
    async def double(storage):
        name = names(storage, "archive/")[0]
        archived = json.loads(storage.beside[name][0])[0]["id"]
        dead = next(job["id"] for job in (await storage.document())["jobs"] if job.get("status") == "dead")
        edit(storage, name, lambda content: content.replace(archived.encode(), dead.encode()))
        return [f"job {dead} is twice"]

    check(double)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-200],
        lambda content: b"not a queue",
        lambda content: content.replace(b'"enqueued_total":', b'"enqueued_total":1'),
        lambda content: content.replace(b'"finished_at":"2026', b'"finished_at":"', 1),
        lambda content: content.replace(b'"format":', b'"format":9'),
    ],
    ids=["cut", "not JSON", "counters", "a finished job", "a newer format"],
)
def test_a_queue_json_that_cannot_be_read_is_a_problem_and_no_exception(change):
    async def damage(storage):
        await edit_queue(storage, change)
        return ["FaultyStorage"]

    assert len(check(damage).problems) == 1


def test_a_count_that_was_changed_is_told():
    async def change(storage):
        await edit_queue(storage, lambda content: content.replace(b'"2026-01-01":10', b'"2026-01-01":11'))
        return ["the archive of 2026-01-01 holds 10 jobs, and queue.json counts 11"]

    check(change)


def test_more_archived_than_finished_jobs_are_told():
    async def change(storage):
        await edit_queue(storage, lose_two_completions)
        return ["12 jobs were archived, but only 10 are finished"]

    def lose_two_completions(content):
        document = json.loads(content)
        document["completed_total"] -= 2
        document["enqueued_total"] -= 2
        return json.dumps(document).encode()

    check(change)


@virtual_time
async def test_jobs_that_finished_while_there_was_no_archive_are_a_note_and_no_problem():
    storage = FaultyStorage()
    async with broker(storage, archive=False) as q:
        await finish(q, 3)
    verdict = await verify(storage)
    assert verdict.is_sound
    assert verdict.notes == ["finished jobs that are not in the archive: 3"]


@virtual_time
async def test_objects_of_others_are_no_problem():
    storage = await full_queue()
    for name in ("archive/2026-01-01T00/notes.txt", "archive/old/1.json", "backlog/x", "payloads/x"):
        storage.beside[name] = b"somebody's own", START
    assert (await verify(storage)).problems == []


@virtual_time
async def test_objects_of_a_day_that_is_not_counted_are_a_note():
    storage = await full_queue()
    storage.beside["archive/2025-12-30T00/000000000003.json"] = b"[\n{}\n]\n", START
    verdict = await verify(storage)
    assert verdict.is_sound
    assert [note for note in verdict.notes if "2025-12-30" in note and note.endswith(": 1")]


@virtual_time
async def test_a_day_that_is_removed_meanwhile_is_no_problem():
    storage = FaultyStorage()
    settings = {"archive_jobs_max": 2, "archive_after_s": 60, "collect_after_s": 1}
    async with broker(storage, **settings) as q:
        for _ in range(6):
            await finish(q, 2)
            await asyncio.sleep(86400)
    read = storage.objects.read

    async def read_late(name):
        storage.objects.read = read
        async with broker(storage, archive_keep_days=2, **settings) as q:
            await q.collect_garbage()
        return await read(name)

    storage.objects.read = read_late
    assert (await verify(storage)).problems == []


@virtual_time
async def test_an_archive_that_is_ahead_of_a_queue_json_that_was_put_back_is_told():
    storage = FaultyStorage()
    async with broker(storage) as q:
        for _ in range(3):
            await finish(q, 5)
            await asyncio.sleep(40)
    older = next(content for content in storage.versions if b'"archived"' in content)
    await storage.inner.write(older, (await storage.inner.read())[1])
    text = "\n".join((await verify(storage)).problems)
    assert names(storage, "archive/")[-1] in text


@pytest.mark.parametrize("seed", range(5))
@virtual_time
async def test_a_queue_that_goes_on_meanwhile_is_found_sound(seed):
    storage = await full_queue()
    storage.latency_s = 0.01
    storage.object_latency_s = 0.02

    async def work():
        async with broker(storage, archive_after_s=1) as q:
            for number in range(60):
                await q.enqueue_many("done", [LARGE, *range(number)])
                await q.ack_many(await q.dequeue(batch_size=20))
                await asyncio.sleep(0.5)

    working = asyncio.create_task(work())
    verdicts = [await verify(storage)]
    while not working.done():
        verdicts.append(await verify(storage))
    await working
    assert [verdict.problems for verdict in verdicts if not verdict.is_sound] == []
    assert verdicts[-1].version > verdicts[0].version
