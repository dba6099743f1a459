"""Tokens: what a line says, what is kept of a secret, and how a file of them is followed."""

import asyncio
import fcntl
import hashlib
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from bucketq.broker import token_file
from bucketq.broker.access import ANYBODY, Caller, Role
from bucketq.broker.door import Door
from bucketq.broker.token_file import TokenFile
from bucketq.broker.tokens import Tokens, new_token
from bucketq.errors import ConfigurationError, ForbiddenError, UnauthenticatedError

NOW = datetime(2026, 6, 1, tzinfo=UTC)
HASH = "sha256:" + hashlib.sha256(b"secret").hexdigest()
# How often a door looks at its file here.
LOOK_EVERY_S = 0.05


def test_a_line_tells_who_has_a_secret():
    tokens = Tokens.parse(f"# callers\n\n  web  producer,worker {HASH}  # the shop\nother admin {HASH[:-1]}0")
    assert tokens.caller_of("secret", NOW) == Caller("web", frozenset({Role.PRODUCER, Role.WORKER}))
    for wrong in ("", "Secret", "secret ", HASH, "\ud800"):
        with pytest.raises(UnauthenticatedError, match="not known"):
            tokens.caller_of(wrong, NOW)


def test_a_new_token_is_random_and_only_its_hash_is_kept():
    (secret, token), (other, _) = (new_token("web", ["worker"]) for _ in range(2))
    assert secret != other
    assert secret.startswith("bq_")
    assert len(secret) >= 46, "256 bits take 43 characters of base64"
    assert secret not in token.line
    assert hashlib.sha256(secret.encode()).hexdigest() in token.line
    assert Tokens.parse(token.line).caller_of(secret, NOW).name == "web"


@pytest.mark.parametrize(
    ("until", "is_over"),
    [
        ("2026-06-01T00:00:01Z", False),
        ("2026-06-01T00:00:00Z", True),
        ("2026-06-01", True),
        ("2026-06-01T01:00:00+02:00", True),
        ("2026-06-01T01:00:00-02:00", False),
    ],
)
def test_a_token_ends_when_its_line_says(until, is_over):
    tokens = Tokens.parse(f"web worker {HASH} {until}")
    [again] = Tokens.parse(next(iter(tokens)).line)
    assert again.is_over(NOW) is is_over
    if not is_over:
        assert tokens.caller_of("secret", NOW)
        return
    with pytest.raises(UnauthenticatedError, match="'web' expired"):
        tokens.caller_of("secret", NOW)
    # Whoever does not have the secret does not learn that there was one.
    with pytest.raises(UnauthenticatedError, match="not known"):
        tokens.caller_of("guess", NOW)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("web worker", "name roles"),
        (f"web worker {HASH} 2027-01-01 more", "name roles"),
        ("web worker hunter2-hunter2", "sha256sum"),
        ("web worker sha256:abc", "64 hexadecimal"),
        (f"web boss {HASH}", "viewer, producer, worker, admin"),
        (f"web worker,, {HASH}", "viewer, producer, worker, admin"),
        (f"web worker {HASH} tomorrow", "2027-01-01T00:00:00Z"),
        (f"web worker {HASH} 9999-12-31T23:59:59-05:00", "2027-01-01T00:00:00Z"),
        (f"w@b worker {HASH}", "letters"),
        (f"good worker {HASH}", "another line"),
    ],
)
def test_a_broken_line_is_told_by_its_number_and_never_by_its_content(line, says):
    with pytest.raises(ConfigurationError, match=says) as refused:
        Tokens.parse(f"# one\ngood viewer {HASH}\n{line}", "tokens")
    assert "tokens, line 3: " in str(refused.value)
    for word in ("hunter2", "boss", "tomorrow", "w@b", HASH):
        assert word not in str(refused.value)
    assert refused.value.__suppress_context__


def test_all_tokens_are_compared_however_early_one_fits(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda one, other: compared.append(other) or one == other)
    tokens = Tokens([new_token(name, ["viewer"])[1] for name in "abc"])
    first, last = Tokens.parse(f"x viewer {HASH}"), [token.digest for token in tokens]
    Tokens([*first, *tokens]).caller_of("secret", NOW)
    assert compared == [HASH.removeprefix("sha256:"), *last]


def test_a_file_is_made_for_its_owner_alone_and_keeps_what_was_in_it(tmp_path):
    path = tmp_path / "tokens"
    file = TokenFile(str(path))
    file.add(new_token("a", ["viewer"])[1])
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(path.read_text().rstrip() + "\n# a comment\nb viewer " + HASH)
    path.chmod(0o640)
    file.add(new_token("c", ["worker", "producer"])[1])
    assert [token.name for token in file.read()] == ["a", "b", "c"]
    inode = path.stat().st_ino
    file.revoke("b")
    assert [token.name for token in file.read()] == ["a", "c"]
    assert "# a comment" in path.read_text()
    assert (path.stat().st_mode & 0o777, path.stat().st_ino) == (0o640, inode), "its owner's as before"
    with pytest.raises(ConfigurationError, match="no token 'b'"):
        file.revoke("b")
    with pytest.raises(ConfigurationError, match="already"):
        file.add(new_token("c", ["viewer"])[1])


def test_two_who_change_a_file_at_once_do_not_undo_each_others_change(tmp_path, monkeypatch):
    path, parse = str(tmp_path / "tokens"), Tokens.parse
    for name in "abc":
        TokenFile(path).add(new_token(name, ["viewer"])[1])
    both = threading.Barrier(2)

    def parse_together(text, source):
        # Both have read the file before either writes it, unless one has to wait for the other.
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return parse(text, source)

    monkeypatch.setattr(Tokens, "parse", parse_together)
    changes = [lambda: TokenFile(path).revoke("a"), lambda: TokenFile(path).revoke("b")]
    with ThreadPoolExecutor() as writers:
        list(writers.map(lambda change: change(), changes))
    assert [token.name for token in TokenFile(path).read()] == ["c"]


def test_a_file_that_another_process_keeps_locked_is_an_error_that_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(token_file, "_LOCK_WAIT_S", 0.01)
    path = tmp_path / "tokens"
    file = TokenFile(str(path))
    file.add(new_token("a", ["viewer"])[1])
    with path.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ConfigurationError, match=r"another process has locked .*tokens for 0\.01 s"):
            file.revoke("a")
    file.revoke("a")


def test_a_file_that_others_may_write_is_warned_of(tmp_path, caplog):
    path = tmp_path / "tokens"
    path.write_text(f"web worker {HASH}")
    for mode, warnings in ((0o644, 0), (0o660, 1), (0o646, 1)):
        path.chmod(mode)
        caplog.clear()
        TokenFile(str(path)).read()
        assert len(caplog.records) == warnings


def test_a_change_counts_when_the_file_stands_still(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"web worker {HASH}\n")
    file = TokenFile(str(path))
    file.read()
    assert file.look() is None
    path.write_text("")
    assert file.look() is None, "it may be half written"
    path.write_text(f"web worker {HASH}\nother viewer {HASH}\n")
    assert file.look() is None
    assert [token.name for token in file.look()] == ["web", "other"]
    assert file.look() is None


@pytest.fixture
async def keep(monkeypatch):
    """Lets a door be kept, which looks at its file often."""
    monkeypatch.setattr("bucketq.broker.door.LOOK_EVERY_S", LOOK_EVERY_S)
    tasks = []

    async def begin(door, file=None):
        tasks.append(asyncio.create_task(door.keep(file)))

    yield begin
    for task in tasks:
        task.cancel()


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(LOOK_EVERY_S / 10)


def knows(door, secret):
    try:
        return bool(door.admit(f"Bearer {secret}", "peer"))
    except UnauthenticatedError:
        return False


async def test_a_door_follows_its_file_and_stays_as_it_is_when_that_is_broken_or_gone(tmp_path, keep, caplog):
    file = TokenFile(str(tmp_path / "tokens"))
    secrets = {}
    for name in ("first", "second"):
        secrets[name], token = new_token(name, ["viewer"])
        file.add(token)
    door = Door(file.read())
    await keep(door, TokenFile(str(tmp_path / "tokens")))
    file.revoke("first")
    await until(lambda: not knows(door, secrets["first"]))
    assert knows(door, secrets["second"])
    caplog.set_level(logging.ERROR)
    for damage in (lambda: (tmp_path / "tokens").write_text("second viewer"), (tmp_path / "tokens").unlink):
        caplog.clear()
        damage()
        await until(lambda: caplog.records)
        await asyncio.sleep(3 * LOOK_EVERY_S)
        assert len(caplog.records) == 1, "said once"
        assert knows(door, secrets["second"])
    # As configuration is often put in place: another file under the same name.
    secrets["third"], token = new_token("third", ["viewer"])
    (tmp_path / "new").write_text(token.line)
    os.replace(tmp_path / "new", tmp_path / "tokens")
    await until(lambda: knows(door, secrets["third"]))
    file.revoke("third")
    await until(lambda: not knows(door, secrets["third"]))
    assert not knows(door, secrets["second"]), "when the last one is revoked nobody comes in"


async def test_who_waits_inside_is_sent_away_when_the_token_is_revoked_or_expires_or_loses_a_role(
    tmp_path, keep
):
    path = tmp_path / "tokens"
    file = TokenFile(str(path))
    secrets = {}
    for name in ("revoked", "expiring", "demoted", "good"):
        ends = datetime.now(UTC) + timedelta(seconds=2) if name == "expiring" else None
        secrets[name], token = new_token(name, ["worker", "viewer"], ends)
        file.add(token)
    door = Door(file.read())
    await keep(door, TokenFile(str(path)))
    waiting = {}

    async def wait(name):
        async with door.visit(f"Bearer {secrets[name]}", "peer", Role.WORKER):
            await asyncio.Event().wait()

    for name in secrets:
        waiting[name] = asyncio.create_task(wait(name))
    await asyncio.sleep(0)
    file.revoke("revoked")
    path.write_text(path.read_text().replace("demoted viewer,worker", "demoted viewer"))
    for name in ("revoked", "expiring", "demoted"):
        with pytest.raises(UnauthenticatedError, match="meanwhile"):
            await waiting[name]
    assert not waiting["good"].done()
    waiting["good"].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting["good"]


async def test_however_many_stay_by_a_token_it_is_looked_at_once_a_time(keep, monkeypatch):
    class Counting(Tokens):
        looks = 0

        def caller_of(self, secret, now):
            self.looks += 1
            return super().caller_of(secret, now)

    secret, token = new_token("web", ["worker"])
    tokens = Counting([token])
    door = Door(tokens)

    async def wait():
        async with door.visit(f"Bearer {secret}", "peer", Role.WORKER):
            await asyncio.Event().wait()

    waiting = [asyncio.create_task(wait()) for _ in range(1000)]
    await asyncio.sleep(0)
    assert tokens.looks == 1000
    await keep(door, None)
    while tokens.looks == 1000:
        await asyncio.sleep(0.01)
    assert tokens.looks < 1010
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)


async def test_a_timeout_of_the_work_itself_is_no_revocation():
    secret, token = new_token("web", ["worker"])
    door = Door(Tokens([token]))
    with pytest.raises(TimeoutError):
        async with door.visit(f"Bearer {secret}", "peer", Role.WORKER), asyncio.timeout(0):
            await asyncio.sleep(1)


async def test_a_door_asks_for_a_token_and_for_a_role():
    secret, token = new_token("web", ["producer"])
    door = Door(Tokens([token]))
    for header in (None, "", "Bearer", "Bearer ", f"Basic {secret}", secret):
        with pytest.raises(
            UnauthenticatedError,
            match=r"Set BUCKETQ_TOKEN or BUCKETQ_TOKEN_FILE \(HTTP: `Authorization: Bearer",
        ):
            door.admit(header, "peer")
    assert door.admit(f"bearer  {secret} ", "peer").name == "web"
    with pytest.raises(ForbiddenError, match="needs the role worker"):
        async with door.visit(f"Bearer {secret}", "peer", Role.WORKER):
            pass
    assert Door().admit(None, "peer") == ANYBODY
