"""The network between remote clients and brokers: slow, lossy, and now and then cut.

A message travels, is worked on in the broker's process, and its answer travels back. Each way
may be lost: then the connection breaks, or nothing comes at all.
"""

import asyncio

from bucketq.broker.access import ANYBODY
from bucketq.remote.brokers import UnreachableError

# How long it takes to notice that the other side does not answer pings any more.
PINGS_S = 6.0


class Network:
    """Who can be reached, and how well. `cuts` holds pairs of a process's name and an address."""

    def __init__(self, random):
        self._random = random
        self._hosts = {}
        self.cuts = set()
        self.loss = 0.0
        self.delay_s = 0.001

    def join(self, address, process, service):
        """A broker listens. If several hosts have its address, each call reaches one of them."""
        self._hosts.setdefault(address, {})[process.name] = process, service

    async def call(self, caller, address, verb, *arguments, **options):
        """Have a broker's service do something; raises UnreachableError."""
        hosts = list(self._hosts.get(address, {}).values()) or [(None, None)]
        process, service = hosts[0] if len(hosts) == 1 else self._random.choice(hosts)
        if process is None or not process.is_alive:
            raise UnreachableError("connection refused", was_sent=False)
        await self._travel(caller, address, was_sent=False)
        if not process.is_alive:
            raise UnreachableError("connection reset", was_sent=True)
        working = process.start(getattr(service, verb)(*arguments, **options))
        try:
            silent_s = 0.0
            while not working.done():
                await asyncio.wait([working], timeout=1.0)
                is_cut = (caller, address) in self.cuts
                silent_s = silent_s + 1 if process.is_paused or is_cut else 0.0
                if not process.is_alive or silent_s > PINGS_S:
                    raise UnreachableError("connection lost", was_sent=True)
        finally:
            if not working.done():
                # The broker hears of it when its connection breaks, and if it does not stand still.
                process.start(self._cancel(working))
        await self._travel(caller, address, was_sent=True)
        return working.result()

    async def _cancel(self, working):
        await asyncio.sleep(self.delay_s)
        working.cancel()

    async def _travel(self, caller, address, *, was_sent):
        await asyncio.sleep(self._random.expovariate(1 / self.delay_s))
        if (caller, address) in self.cuts:
            await asyncio.sleep(PINGS_S)
            raise UnreachableError("no route", was_sent=was_sent)
        if self._random.random() < self.loss:
            await asyncio.sleep(self._random.choice([0, PINGS_S]))
            raise UnreachableError("connection lost", was_sent=was_sent)


class NetworkBrokers:
    """The way of one process to the brokers."""

    def __init__(self, network, caller):
        self._network = network
        self._caller = caller

    async def batch(self, address, *batch):
        return await self._call(address, "batch", *batch, ANYBODY)

    async def wait_ready(self, address, entrypoint, timeout_s):
        await self._call(address, "wait_ready", entrypoint, timeout_s)

    async def read_object(self, address, name):
        return await self._call(address, "read_object", name, ANYBODY)

    async def create_object(self, address, name, content):
        await self._call(address, "create_object", name, content)

    async def list_objects(self, address, prefix, after):
        return await self._call(address, "list_objects", prefix, after)

    async def collect_garbage(self, address, *, dry_run):
        return await self._call(address, "collect_garbage", dry_run=dry_run)

    async def find_archived(self, address, job_id):
        return await self._call(address, "find_archived", job_id)

    async def close(self):
        pass

    async def _call(self, address, verb, *arguments, **options):
        return await self._network.call(self._caller, address, verb, *arguments, **options)
