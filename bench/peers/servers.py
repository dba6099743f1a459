"""Servers: Redis, PostgreSQL, SeaweedFS and brokers, on private ports, to be killed and started again.

Each gives URLs of places, which are queues that know nothing of each other: a database of Redis or
PostgreSQL, an object of SeaweedFS, a file. `kill` is SIGKILL; `start` goes on with what is on the disk.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from bench.peers.handler import SILENT_S
from bench.peers.packages import postgres_bin
from bench.peers.process import Process
from tests.contract.servers import BUCKET, create_s3_bucket, free_ports, remove_sockets, seaweedfs_command

_REDIS_PLACES = {"kill": 0, "drain": 1, "one": 2, "many": 3, "trickle": 4}


class Server:
    """No server: queues are files in a folder, and whoever uses them is all that can be killed."""

    # Whether there is anything to kill but the producer.
    is_served = False
    program = ""
    # What contestants need to know beside a URL.
    environment: dict[str, str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {}
        self.processes: list[Process] = []
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def pids(self) -> list[int]:
        """Of all that serve."""
        return [process.pid for process in self.processes if process.is_alive]

    def start(self) -> None:
        """Start, with what is on the disk."""

    def url(self, place: str) -> str:
        """Where a queue is."""
        return f"file://{self.folder / place}"

    def kill(self) -> None:
        """Kill what serves, at once."""
        for process in self.processes:
            process.kill()
        self.processes = []

    def __enter__(self) -> "Server":
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Memory(Server):
    """No server and no file."""

    def url(self, place: str) -> str:
        return f"memory://{place}"


class Redis(Server):
    """redis-server, with an append-only file."""

    is_served = True
    program = "Redis"
    appendfsync = "always"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.port,) = free_ports(1)

    def start(self) -> None:
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.folder),
            "appendonly": "yes",
            "appendfsync": self.appendfsync,
            "save": "",
        }
        command = [
            "redis-server",
            *(word for name, value in options.items() for word in (f"--{name}", value)),
        ]
        process = Process(command, self.folder / "server.log")
        self.processes = [process]
        process.wait_until(self._is_ready)

    def url(self, place: str) -> str:
        return f"redis://127.0.0.1:{self.port}/{_REDIS_PLACES[place]}"

    def _is_ready(self) -> bool:
        ping = subprocess.run(["redis-cli", "-p", str(self.port), "ping"], capture_output=True, text=True)
        return ping.stdout.strip() == "PONG"


class RedisEverySecond(Redis):
    """redis-server, which flushes its file once a second: its default."""

    appendfsync = "everysec"


class Postgres(Server):
    """PostgreSQL as it comes: fsync and synchronous_commit are on."""

    is_served = True
    program = "PostgreSQL"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (self.port,) = free_ports(1)
        self._data = folder / "data"
        self._bin = postgres_bin()

    def start(self) -> None:
        if not self._data.exists():
            self._data.mkdir()
            if os.getuid() == 0:
                shutil.chown(self._data, "postgres", "postgres")
            self._run("initdb", "-D", str(self._data), "-U", "peers", "--auth=trust", "--encoding=UTF8")
        options = [f"port={self.port}", "listen_addresses=127.0.0.1", "unix_socket_directories="]
        command = self._as_user("postgres", "-D", str(self._data), *(f"-c{option}" for option in options))
        process = Process(command, self.folder / "server.log")
        self.processes = [process]
        process.wait_until(self._is_ready)

    def url(self, place: str) -> str:
        name = f"peers_{place}"
        address = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "peers"]
        subprocess.run([self._bin / "createdb", *address, name], stderr=subprocess.DEVNULL)
        return f"postgresql://peers@127.0.0.1:{self.port}/{name}"

    def __exit__(self, *_: object) -> None:
        try:
            # In order, so that no shared memory is left behind.
            if self.pids:
                self._run("pg_ctl", "stop", "-D", str(self._data), "-m", "fast")
        finally:
            super().__exit__()

    def _is_ready(self) -> bool:
        command = [self._bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command).returncode == 0

    def _run(self, name: str, *arguments: str) -> None:
        subprocess.run(self._as_user(name, *arguments), check=True, stdout=subprocess.DEVNULL, cwd="/")

    def _as_user(self, name: str, *arguments: str) -> list[str]:
        # It refuses to run as root.
        who = (
            ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
        )
        return [*who, str(self._bin / name), *arguments]


class SeaweedFS(Server):
    """SeaweedFS, an S3 server."""

    is_served = True
    program = "SeaweedFS"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._ports = free_ports(8)
        self._endpoint = f"http://127.0.0.1:{self._ports[6]}"
        options = {
            "endpoint_url": self._endpoint,
            "region_name": "us-east-1",
            "access_key_id": "testing",
            "secret_access_key": "testing",
        }
        self.environment = {"PEERS_STORAGE": json.dumps(options)}
        key = {"accessKey": "testing", "secretKey": "testing"}
        users = [{"name": "testing", "credentials": [key], "actions": ["Admin"]}]
        (folder / "identities.json").write_text(json.dumps({"identities": users}))

    def start(self) -> None:
        command = seaweedfs_command(self.folder, self._ports)
        process = Process(command, self.folder / "server.log", {"TMPDIR": str(self.folder)})
        self.processes = [process]
        process.wait_until(lambda: create_s3_bucket(self._endpoint))

    def url(self, place: str) -> str:
        return f"s3://{BUCKET}/{place}/queue.json"

    def kill(self) -> None:
        super().kill()
        remove_sockets(self._ports)


class Brokers(Server):
    """A broker of bucketq on a storage, or two where another can take over; the leader is killed."""

    is_served = True

    def __init__(self, folder: Path, storage: Server, standby: bool) -> None:
        super().__init__(folder)
        self.storage = storage
        self._standby = standby
        self._ports: dict[str, list[tuple[int, int]]] = {}
        self._brokers: list[Process] = []
        self._place = ""

    @property
    def pids(self) -> list[int]:
        return [*self.storage.pids, *(broker.pid for broker in self._brokers if broker.is_alive)]

    def start(self) -> None:
        """Start the storage, or the broker that was killed."""
        if not self._brokers:
            self.storage.start()
            return
        for number, broker in enumerate(self._brokers):
            if not broker.is_alive:
                self._brokers[number] = self._serve(number)
        self._brokers[0].wait_until(lambda: self._leader() is not None)

    def url(self, place: str) -> str:
        """Of brokers that serve this place, from now on."""
        if place != self._place:
            self._kill_brokers()
            self._place = place
            count = 2 if self._standby and place == "kill" else 1
            ports = free_ports(2 * count)
            self._ports[place] = list(zip(ports[::2], ports[1::2], strict=True))
            for number in range(count):
                self._brokers.append(self._serve(number))
                self._brokers[0].wait_until(lambda: self._leader() is not None)
        addresses = (f"127.0.0.1:{grpc}" for grpc, _ in self._ports[place])
        return f"grpc://{','.join(addresses)}"

    def kill(self) -> None:
        leader = self._leader()
        if leader:
            leader.kill()

    def __exit__(self, *_: object) -> None:
        self._kill_brokers()
        self.storage.__exit__()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _kill_brokers(self) -> None:
        for broker in self._brokers:
            broker.kill()
        self._brokers = []

    def _leader(self) -> Process | None:
        return next(
            (one for one in self._brokers if one.is_alive and "leading, at" in one.log.read_text()), None
        )

    def _serve(self, number: int) -> Process:
        grpc, http = self._ports[self._place][number]
        log = self.folder / f"{self._place}-{number}.log"
        log.unlink(missing_ok=True)
        options = {
            "grpc-port": grpc,
            "http-port": http,
            "stale-after-s": SILENT_S,
            "heartbeat-interval-s": 1,
            "heartbeat-timeout-s": 3,
        }
        command = [sys.executable, "-m", "bucketq", "serve", self.storage.url(self._place)]
        command += [f"--{name}={value}" for name, value in options.items()]
        return Process(command, log, self._storage_environment())

    def _storage_environment(self) -> dict[str, str]:
        told = json.loads(self.storage.environment.get("PEERS_STORAGE", "{}"))
        names = {
            "endpoint_url": "AWS_ENDPOINT_URL_S3",
            "region_name": "AWS_REGION",
            "access_key_id": "AWS_ACCESS_KEY_ID",
            "secret_access_key": "AWS_SECRET_ACCESS_KEY",
        }
        return {names[name]: value for name, value in told.items()}
