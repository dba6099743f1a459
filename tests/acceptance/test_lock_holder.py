"""`bucketq doctor` names the process that holds the lock of a queue."""

import sys

from bucketq.doctor import examine
from bucketq.doctor.finding import Level
from tests.acceptance.test_full_disk import stopped_holder


async def test_doctor_names_the_holder_of_a_lock_that_stays_held(tmp_path):
    path = tmp_path / "queue.json"
    with stopped_holder(path) as holder:
        found = await locks(path)
        assert [finding.level for finding in found] == [Level.PROBLEM]
        assert "do not delete the lock file" in found[0].advice.lower()
        if sys.platform == "linux":
            assert f"is held by process {holder.pid} (python" in found[0].found
    assert await locks(path) == []


async def locks(path):
    return [one async for one in examine(f"file://{path}") if one.about == "lock"]
