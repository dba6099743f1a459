"""How the queue stands, in JSON."""

import asyncio

import msgspec
from msgspec import Raw

from bucketq.broker.access import Role
from bucketq.broker.calls.call import Asked, Call, Visit, call
from bucketq.broker.served import ServedQueue
from bucketq.broker.service import Service
from bucketq.codec import leader_of
from bucketq.jobline import decode_job
from bucketq.state import Stats
from bucketq.told import ListedJob, QueueStats, milliseconds

_JOBS_AT_A_STRETCH = 50


class Nothing(Asked):
    """Nothing more to say."""


def address_of(service: Service) -> str:
    """Where the broker that leads is reached by HTTP, or nothing."""
    leader = service.broker.leader
    return leader.http if leader else ""


def stats_told(service: Service, stats: Stats) -> QueueStats:
    """Statistics as they are told."""
    return QueueStats.of(stats, address_of(service))


@call("getStats", "GET /v1/stats", Role.VIEWER)
async def get_stats(visit: Visit, asked: Nothing) -> QueueStats:
    """Count the jobs."""
    return stats_told(visit.service, await visit.service.stats())


@call("getState", "GET /state", Role.VIEWER)
async def get_state(visit: Visit, asked: Nothing) -> Raw:
    """Show queue.json itself, with osqueue's fields; without secrets, unless the caller is an admin."""

    async def show(queue: ServedQueue) -> Raw:
        # What is decoded takes several times the room of the file, and is not counted.
        async with queue.looking:
            return await _state_of(await visit.service.read_object("", visit.caller))

    return await visit.lead(show)


async def _state_of(content: bytes) -> Raw:
    document = msgspec.json.decode(content, type=dict[str, Raw])
    jobs = []
    for number, line in enumerate(msgspec.json.decode(document["jobs"], type=list[Raw])):
        listed = msgspec.json.encode(ListedJob.of(decode_job(bytes(line), "queue.json")))
        jobs.append(_fields_of(line) | _fields_of(listed))
        if number % _JOBS_AT_A_STRETCH == 0:
            await asyncio.sleep(0)
    leader = leader_of(content)
    osqueue = {
        "broker": leader.http or leader.address if leader else None,
        "brokerHeartbeat": milliseconds(leader.beat_at if leader else None),
        "completedTotal": document["completed_total"],
        "jobs": jobs,
    }
    return Raw(msgspec.json.encode(document | osqueue))


def _fields_of(line: bytes | Raw) -> dict[str, Raw]:
    fields: dict[str, Raw] = msgspec.json.decode(line, type=dict[str, Raw])
    return fields


CALLS: list[Call] = [get_stats, get_state]
