"""The rules of the house: which room may know which, and which rooms stay pure."""

import ast
import subprocess
import sys
from pathlib import Path

import bucketq

SOURCE = Path(bucketq.__file__).parent

# From the ground up; a module imports only from below its own line.
FLOORS = [
    {"errors", "clock", "closed_pipe", "journal", "loopback", "supervised", "words", "trace_context"},
    {
        "v1",
        "object_name",
        "archive_name",
        "mint",
        "pace",
        "settings",
        "tls",
        "refusal",
        "token_bucket",
        "figures",
        "budget",
    },
    {"prices"},
    {"account"},
    {"job", "duration", "failure", "wanted"},
    {
        *("jobline", "ledger", "election", "retry", "new_job", "expiry", "fingerprint", "kept_keys"),
        *("sessions", "loads", "signatures"),
    },
    {"segment", "archived_job", "schedule", "tracing"},
    {"segment_lines"},
    {
        "log_fields",
        "backlog",
        "passed",
        "ready",
        "due",
        "limits",
        "turned_jobs",
        "dependents",
        "batches",
        "ending",
        "progress",
        "new_batch",
        "segment_claim",
        "timeline",
        "facts",
        "archive_lines",
        "archive_selection",
    },
    {"key_shelf", "turns", "rate_buckets"},
    {"shelf", "table"},
    {"unique", "dispatch"},
    {"state"},
    {"timeouts", "told", "difference", "glance"},
    {"codec", "operation", "stale"},
    {"storage", "patience", "pending", "admission"},
    {"contention", "lookout", "riders", "overdue", "deadline"},
    {"commit", "side_objects"},
    {
        "collect",
        "payload",
        "heartbeat",
        "transaction",
        "archive",
        "archive_upkeep",
        "dead_letters",
        "listing",
    },
    {"upkeep", "bulk", "verify", "ticker", "watch"},
    {"group"},
    {"queue"},
    {"embedded"},
    {"transfer"},
    {"wire"},
    {"remote", "broker"},
    {"url", "loop_thread"},
    {"sync", "doctor", "live"},
    {"app"},
    {"spark"},
    {"pipeline"},
    {"top"},
    {"dashboard"},
    {"demo", "testing", "cli"},
    {"__main__"},
]
PURE = [
    *(
        "errors",
        "object_name",
        "archive_name",
        "archive_lines",
        "archive_selection",
        "job",
        "jobline",
        "ledger",
        "segment",
        "archived_job",
    ),
    *(
        "segment_lines",
        "fingerprint",
        "kept_keys",
        "key_shelf",
        "unique",
        "backlog",
        "passed",
        "ready",
        "due",
        "shelf",
        "table",
        "journal",
        "limits",
        "rate_buckets",
        "turned_jobs",
        "turns",
        "dispatch",
        "state",
        "retry",
        "pace",
        "contention",
        "token_bucket",
        "figures",
        "budget",
        "prices",
        "account",
        "settings",
        "codec",
        "operation",
        "refusal",
        "sessions",
        "loads",
        "signatures",
        "election",
        "dependents",
        "batches",
        "ending",
        "progress",
        "stale",
        "schedule",
        "expiry",
        "timeouts",
        "segment_claim",
        "wanted",
        "timeline",
        "facts",
        "told",
        "difference",
        "glance",
        "words",
        "trace_context",
    ),
]
IMPURE = {"asyncio", "time", "random", "os", "io", "socket", "threading", "secrets", "uuid", "pathlib"}


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports are absolute"
            yield node.module


def rooms():
    for path in sorted(SOURCE.rglob("*.py")):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room != "__init__":
            yield room, path


def floor_of(room):
    [floor] = [number for number, names in enumerate(FLOORS) if room in names]
    return floor


def test_imports_go_one_way():
    for room, path in rooms():
        for name in imports_of(path):
            if name == "bucketq":
                assert floor_of(room) >= floor_of("cli"), f"{path.name} imports the public face"
            elif name.startswith("bucketq."):
                below = name.split(".")[1]
                assert below == room or floor_of(below) < floor_of(room), f"{path.name} imports {name}"


def test_every_room_has_its_floor():
    assert {room for room, _ in rooms()} == set().union(*FLOORS)


def test_pure_rooms_hold_no_io_clock_or_chance():
    for room in PURE:
        paths = [path for name, path in rooms() if name == room]
        assert paths, f"there is no {room}"
        for path in paths:
            found = {name.split(".")[0] for name in imports_of(path)} & IMPURE
            assert not found, f"{path} imports {found}"
            text = path.read_text()
            assert "now()" not in text, f"{path} reads a clock"
            assert "open(" not in text, f"{path} opens a file"


def test_the_core_needs_only_msgspec_obstore_and_cronsim():
    allowed = {"bucketq", "msgspec", "obstore", "cronsim", *sys.stdlib_module_names}
    for room, path in rooms():
        is_of_brokers = room in {"v1", "wire", "broker"} or path.stem.endswith("_brokers")
        if (
            room not in {"demo", "testing", "top", "dashboard", "cli", "spark", "pipeline", "tracing"}
            and not is_of_brokers
        ):
            found = {name.split(".")[0] for name in imports_of(path)} - allowed
            assert not found, f"{path.name} imports {found}"


def test_grpc_comes_only_with_brokers():
    code = "import sys, bucketq, bucketq.cli.__main__; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_spark_comes_only_when_it_is_asked_for():
    code = "import sys, bucketq, bucketq.spark; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_type_checkers_see_the_public_names_and_where_they_live():
    seen = ast.parse((SOURCE / "__init__.pyi").read_text())
    homes = {
        alias.name: node.module
        for node in seen.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == bucketq._HOMES


def test_help_comes_without_what_only_the_work_needs():
    code = (
        "import sys; from bucketq.cli.__main__ import main; main(['--help']);"
        " heavy = {'msgspec', 'obstore', 'rich', 'pydantic', 'grpc', 'textual', 'pyspark', 'nicegui'};"
        " heavy |= {'asyncio'};"
        " sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_public_names():
    for name in bucketq.__all__:
        assert getattr(bucketq, name) is not None
    assert set(bucketq.__all__) >= {
        *("DirectQueue", "BrokerQueue", "HeartbeatManager", "InMemoryStorage", "LocalFileSystemStorage"),
        *("S3Storage", "GCSStorage", "AzureStorage", "ObjectStoragePort", "Job", "JobStatus", "QueueState"),
        *("BucketQError", "CASConflictError", "JobNotFoundError", "StorageError", "ClaimLostError"),
        "connect",
    }


def test_a_room_is_there_for_those_who_imported_bucketq_alone():
    code = "import bucketq; print(bucketq.errors.JobNotFoundError is bucketq.JobNotFoundError)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
