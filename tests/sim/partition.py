"""Brokers in network namespaces of their own: the leader is cut off from the storage, its clients, or both.

    unshare --net python -m tests.sim.partition FOLDER

    ┌ this namespace ────────┐      ┌ a: broker ┐ ┌ b: broker ┐ ┌ c: clients ┐
    │ SeaweedFS, a bridge    ├──────┤           ├─┤           ├─┤            │
    └────────────────────────┘      └───────────┘ └───────────┘ └────────────┘

A cut is a route to nowhere in the leader's namespace: packets vanish, nothing is refused.
"""

import asyncio
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from tests.contract.servers import BUCKET, seaweedfs
from tests.sim.crew import BEATS
from tests.sim.failover import GRACE_S, LEADS_S, Brokers, judge_failover
from tests.sim.soak import Member, finish, make_folder

STORAGE, CLIENTS_HOST = "10.77.0.1", "10.77.0.4"
CLIENTS = 6
PLACES = {"10.77.0.2": "a", "10.77.0.3": "b"}
CUT_S = BEATS.timeout_s + 3


class Net:
    """A bridge in this namespace, and namespaces that hang on it."""

    def __init__(self):
        self._mark = f"bq{os.getpid()}"
        ip("link", "set", "lo", "up")
        ip("link", "add", "hub", "type", "bridge")
        ip("addr", "add", f"{STORAGE}/24", "dev", "hub")
        ip("link", "set", "hub", "up")
        self._names = []

    def add(self, name, address):
        space = f"{self._mark}{name}"
        ip("netns", "add", space)
        self._names.append(space)
        ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", space)
        ip("link", "set", f"to-{name}", "master", "hub", "up")
        ip("-n", space, "link", "set", "lo", "up")
        ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")

    def within(self, name):
        return ("ip", "netns", "exec", f"{self._mark}{name}")

    @contextmanager
    def cut(self, name, *addresses):
        """Nothing gets from there to these addresses."""
        for address in addresses:
            ip("-n", f"{self._mark}{name}", "route", "add", "blackhole", f"{address}/32")
        yield
        for address in addresses:
            ip("-n", f"{self._mark}{name}", "route", "del", "blackhole", f"{address}/32")

    def close(self):
        for space in self._names:
            ip("netns", "del", space)


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def forward(port):
    """Let what comes to the bridge's address go to a port of the loopback."""

    async def handle(reader, writer):
        there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    async def pump(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def main():
        server = await asyncio.start_server(handle, STORAGE, port)
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()


def main(folder):
    net = Net()
    try:
        for name, address in zip("abc", (*PLACES, CLIENTS_HOST), strict=True):
            net.add(name, address)
        with seaweedfs(make_folder(folder, "server")) as server:
            port = int(server.endpoint_url.rpartition(":")[2])
            forward(port)
            options = {**server.options, "endpoint_url": f"http://{STORAGE}:{port}"}
            return play(net, folder, f"s3://{BUCKET}/queue.json", options)
    finally:
        net.close()


def play(net, folder, url, options):
    places = {f"{host}:7420:8420": net.within(name) for host, name in PLACES.items()}
    brokers = Brokers(folder, url, options, places)
    clients = [
        Member(folder, f"client{n}-", "remote", brokers.url(n), {}, net.within("c")) for n in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    _, leader = brokers.wait_for_another(0, limit_s=30)
    for what, addresses, is_followed in [
        ("the storage", [STORAGE], True),
        ("its clients", [CLIENTS_HOST], False),
        ("both", [STORAGE, CLIENTS_HOST], True),
    ]:
        time.sleep(2 * LEADS_S)
        began_s = time.monotonic()
        with net.cut(PLACES[leader.address.partition(":")[0]], *addresses):
            if is_followed:
                waited_s, leader = brokers.wait_for_another(leader.epoch, BEATS.timeout_s + GRACE_S)
                print(f"cut off from {what}: another leads after {waited_s:.1f} s", flush=True)
            time.sleep(max(0, began_s + CUT_S - time.monotonic()))
        if not is_followed:
            assert brokers.leader().epoch == leader.epoch, "it reaches the storage, so it goes on leading"
            print(f"cut off from {what}: they wait", flush=True)
    time.sleep(2 * LEADS_S)
    for client in clients:
        client.kill()
    brokers.stop()
    record = finish(folder, url, options)
    print(f"{len(record.calls)} calls, {len(record.versions) - 1} commits", flush=True)
    if len(record.versions) < 50:
        print("the clients did not work")
        return 1
    if story := judge_failover(record, CLIENTS):
        print(story)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
