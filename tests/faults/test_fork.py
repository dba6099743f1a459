"""A queue that existed before a fork is a queue of its own in the child."""

import asyncio
import os
import traceback

from bucketq import BrokerQueue, DirectQueue, LocalFileSystemStorage
from bucketq.mint import Mint


def start_child(act):
    """Run `act` in a forked child, which ends with it."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def exit_code(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_parent_and_child_do_not_take_each_others_commits_for_their_own(tmp_path):
    queue = DirectQueue(LocalFileSystemStorage(tmp_path / "queue.json"))

    async def enqueue(name):
        await queue.enqueue(name)

    asyncio.run(enqueue("before"))
    assert exit_code(start_child(lambda: asyncio.run(enqueue("child")))) == 0
    asyncio.run(enqueue("parent"))
    state = asyncio.run(queue.read_state())
    assert [job.entrypoint for job in state.jobs] == ["before", "child", "parent"]
    assert len(state.signatures.writers) == 2, "each under its own name"


def test_a_broker_queue_made_before_a_fork_is_a_writer_of_its_own_in_each_child(tmp_path):
    queue = BrokerQueue(LocalFileSystemStorage(tmp_path / "queue.json"))

    async def enqueue():
        async with queue as q:
            for number in range(20):
                await q.enqueue("mail", number)

    child = start_child(lambda: asyncio.run(enqueue()))
    asyncio.run(enqueue())
    assert exit_code(child) == 0
    state = asyncio.run(queue.read_state())
    assert state.stats.enqueued_total == 40
    assert len(state.signatures.writers) == 2


def test_a_fork_mints_its_own_ids(tmp_path):
    mint = Mint()
    note = tmp_path / "child"
    assert exit_code(start_child(lambda: note.write_text(mint.token()))) == 0
    assert note.read_text() != mint.token()
