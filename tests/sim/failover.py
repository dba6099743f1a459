"""Real brokers and real clients: the leader is killed, stopped and told to go, again and again.

Each time another broker has to lead soon, no client may see more than a pause, and at the end
every promise must have been kept.
"""

import asyncio
import fcntl
import signal
import time

from bucketq import JobNotFoundError, open_storage
from bucketq.codec import decode
from tests.contract.servers import free_ports
from tests.sim.crew import BEATS
from tests.sim.soak import COMMIT_WITHIN_S, Member, finish, judge

CLIENTS = 10
WAYS = ("grpc", "http", "ws")
# What a takeover may take beyond the timeout, and what a handover may take.
GRACE_S = 2.0
# Longer than any leader lives on while it stands still.
PAUSE_S = BEATS.timeout_s + 1.5


LEADS_S = 1.5


class Brokers:
    """Two brokers, and which of them leads."""

    def __init__(self, folder, url, options, places):
        self._storage = open_storage(url, **options)
        self._members = {}
        self._http = []
        for number, (place, within) in enumerate(places.items()):
            host, grpc_port, http_port = place.split(":")
            member = Member(folder, f"broker{number}-", f"serve:{place}", url, options, within)
            self._members[f"{host}:{grpc_port}"] = member
            self._http.append(f"{host}:{http_port}")
            member.start()

    def url(self, number):
        """Where the client of this number finds them; one after the other by another way."""
        scheme = WAYS[number % len(WAYS)]
        return f"{scheme}://{','.join(self._members if scheme == 'grpc' else self._http)}"

    def leader(self):
        content, etag = asyncio.run(self._storage.read())
        return decode(content).leader if etag else None

    def wait_for_another(self, epoch, limit_s):
        """Return how long it took until there was a leader of a later epoch, and that leader."""
        began_s = time.monotonic()
        while (leader := self.leader()) is None or leader.epoch <= epoch:
            if time.monotonic() - began_s > limit_s:
                raise AssertionError(f"no other broker led within {limit_s:g} s: {leader}")
            time.sleep(0.02)
        return time.monotonic() - began_s, leader

    def member(self, leader):
        return self._members[leader.address]

    def pause(self, member):
        """Stop a broker, but not while it holds the lock of a file: nobody could write until it goes on."""
        while True:
            member.signal(signal.SIGSTOP)
            if not self._is_locked():
                return
            member.signal(signal.SIGCONT)

    def _is_locked(self):
        path = getattr(self._storage, "path", None)
        if path is None:
            return False
        with open(f"{path}.lock") as lock:
            # It is stopped when the kernel has delivered the signal.
            time.sleep(0.05)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def stop(self):
        for member in self._members.values():
            member.kill()


def failover(folder, url, *, kills, pauses, handovers, **options):
    """Put the leader through all of it while clients are at work; return the record, and the times taken."""
    ports = free_ports(4)
    places = {f"localhost:{ports[0]}:{ports[1]}": (), f"localhost:{ports[2]}:{ports[3]}": ()}
    brokers = Brokers(folder, url, options, places)
    clients = [Member(folder, f"client{n}-", "remote", brokers.url(n), {}) for n in range(CLIENTS)]
    for client in clients:
        client.start()
    took_s = {"kill": [], "pause": [], "handover": []}
    _, leader = brokers.wait_for_another(0, COMMIT_WITHIN_S)
    for trial in ["kill"] * kills + ["pause"] * pauses + ["handover"] * handovers:
        # Let it lead for a while, so that clients find it, and the other one be ready.
        time.sleep(LEADS_S)
        member = brokers.member(leader)
        if trial == "kill":
            member.kill()
            limit_s = BEATS.timeout_s + GRACE_S
        elif trial == "pause":
            brokers.pause(member)
            limit_s = BEATS.timeout_s + GRACE_S
        else:
            member.signal(signal.SIGTERM)
            limit_s = GRACE_S
        waited_s, leader = brokers.wait_for_another(leader.epoch, limit_s)
        took_s[trial].append(waited_s)
        if trial == "kill":
            member.start()
        elif trial == "pause":
            time.sleep(PAUSE_S - min(waited_s, PAUSE_S))
            member.signal(signal.SIGCONT)
        else:
            assert member.wait(30) == 0, "a broker that was told to go ends well"
            member.start()
    for client in clients:
        client.kill()
    brokers.stop()
    return finish(folder, url, options), took_s


def judge_failover(record, clients=CLIENTS):
    """The story of what went wrong, or None."""
    for call in record.calls.values():
        if call.error is not None and not isinstance(call.error, JobNotFoundError):
            return f"a client saw an error, not a pause: {call}"
    answered = {call.process.partition("-")[0] for call in record.calls.values() if call.ended_s is not None}
    if idle := {f"client{number}" for number in range(clients)} - answered:
        return f"clients that nobody ever answered: {idle}"
    return judge(record)
