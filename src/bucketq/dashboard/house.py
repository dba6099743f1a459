"""House: where a dashboard stands, who may come in, and what they get to see.

    BrokerHouse    on a broker's own HTTP port; acts through the broker's own messages
    StorageHouse   alone, before a storage; acts on it as any other writer does
    RemoteHouse    alone, before brokers; whoever comes in is to them what their token says

Each refuses by itself what a visitor may not do.
"""

from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from bucketq.account import Account, Spending
from bucketq.broker.access import ANYBODY, Caller, Role
from bucketq.broker.door import Door
from bucketq.broker.serving import Inside
from bucketq.clock import SystemClock
from bucketq.dashboard.inside_brokers import InsideBrokers
from bucketq.dashboard.visitor import Visitor
from bucketq.dashboard.watch import Watch
from bucketq.embedded import WIDEST_S, DirectQueue
from bucketq.errors import ConfigurationError, UnauthenticatedError
from bucketq.operation import Operation
from bucketq.pending import IfAbandoned
from bucketq.remote.message_brokers import MessageBrokers
from bucketq.remote.queue import RemoteQueue
from bucketq.settings import Settings
from bucketq.storage.counted import CountedBucket, open_account
from bucketq.storage.port import Bucket, describe
from bucketq.url import connect

# Whoever has clicked wants to know soon; and this broker is asked, and no other one.
_ANSWER_WITHIN_S = 5.0
# Less than a look waits for: then it is told that no broker answers.
_BROKERS_ANSWER_WITHIN_S = 4.0


class House(Protocol):
    """Lets visitors in."""

    url: str
    # Whether everybody has to show a token.
    needs_token: bool
    # The parts of the broker that it stands on, if it does.
    inside: Inside | None

    async def admit(self, token: str | None, peer: str) -> Visitor:
        """Let somebody in. Raises UnauthenticatedError and TooManyRequestsError."""
        ...

    @property
    def spending(self) -> Spending | None:
        """What this process asks of the storage, and what that costs; None if it has none."""
        ...

    @property
    def obstacle(self) -> str:
        """Why nothing can be done from here at the moment, in words; empty if something can."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class BrokerHouse:
    """On a broker."""

    def __init__(self, inside: Inside) -> None:
        self.inside: Inside | None = inside
        self._inside = inside
        self.url = describe(inside.storage)
        self.needs_token = inside.needs_token
        self._watch = Watch(inside.storage)

    @property
    def obstacle(self) -> str:
        broker = self._inside.service.broker
        return (
            ""
            if broker.is_leading
            else "this broker does not lead: act on the dashboard of the one that does"
        )

    @property
    def spending(self) -> Spending | None:
        return self._inside.service.broker.spending

    async def admit(self, token: str | None, peer: str) -> Visitor:
        inside, authorization = self._inside, _authorization(token)
        caller = inside.door.admit(authorization, peer)
        queue = RemoteQueue(
            lambda: InsideBrokers(inside, authorization, peer),
            ["this broker"],
            settings=replace(inside.service.broker.settings, retry_for_s=_ANSWER_WITHIN_S),
        )
        visitor = Visitor(
            caller,
            queue,
            self._watch,
            lambda: inside.door.welcomes(authorization, caller),
            lambda peer: inside.door.admit(authorization, peer),
        )
        await visitor.leaving.enter_async_context(queue)
        return visitor

    async def close(self) -> None:
        await self._watch.close()


class StorageHouse:
    """Before a storage."""

    inside: Inside | None = None
    obstacle = ""

    def __init__(self, storage: Bucket, settings: Settings, door: Door, *, needs_token: bool) -> None:
        self._storage = storage
        self._settings = settings
        self._door = door
        self.url = describe(storage)
        self.needs_token = needs_token
        self._account = open_account(storage, settings, SystemClock(), WIDEST_S)
        self._watch = Watch(CountedBucket(storage, self._account))

    @property
    def spending(self) -> Spending | None:
        return self._account.spending()

    async def admit(self, token: str | None, peer: str) -> Visitor:
        authorization = _authorization(token)
        caller = self._door.admit(authorization, peer)
        queue = _GuardedQueue(self._storage, self._settings, self._account, self._door, authorization, peer)
        return Visitor(
            caller,
            queue,
            self._watch,
            lambda: self._door.welcomes(authorization, caller),
            lambda peer: self._door.admit(authorization, peer),
        )

    async def close(self) -> None:
        await self._watch.close()


class _GuardedQueue(DirectQueue):
    """A queue that does what whoever shows this header may have done."""

    def __init__(
        self,
        storage: Bucket,
        settings: Settings,
        account: Account,
        door: Door,
        authorization: str | None,
        peer: str,
    ) -> None:
        super().__init__(storage, settings, account=account)
        self._door = door
        self._authorization = authorization
        self._peer = peer

    async def _submit(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> Any:
        self._door.admit(self._authorization, self._peer).check(operation)
        return await super()._submit(operation, if_abandoned)


class RemoteHouse:
    """Before brokers, which know the tokens.

    Where nobody needs one, all visitors come by that of whoever started the dashboard, in the
    environment; until the brokers want another one.
    """

    inside: Inside | None = None
    obstacle = ""
    spending: Spending | None = None

    def __init__(self, url: str, settings: Settings, *, needs_token: bool) -> None:
        self.url = url
        self.needs_token = self._is_public = needs_token
        self._settings = replace(settings, retry_for_s=_BROKERS_ANSWER_WITHIN_S)
        self._watches: set[Watch] = set()

    async def admit(self, token: str | None, peer: str) -> Visitor:
        if self.needs_token and not (token and token.strip()):
            # To connect without one is to connect by the environment's.
            raise UnauthenticatedError("a token is needed")
        queue = connect(self.url, token=token, settings=self._settings)
        if not isinstance(queue, RemoteQueue) or not isinstance(queue.storage, Bucket):
            raise ConfigurationError(f"{self.url} is no URL of brokers")
        watch = Watch(queue.storage)
        # The brokers count what they are asked.
        visitor = Visitor(ANYBODY, queue, watch, lambda: not _was_refused(watch), lambda peer: None)
        await visitor.leaving.enter_async_context(queue)
        try:
            visitor.caller = await self._introduce(queue)
        except BaseException as error:
            await visitor.leaving.aclose()
            self.needs_token |= isinstance(error, UnauthenticatedError)
            raise
        self._watches.add(watch)
        visitor.leaving.push_async_callback(self._forget, watch)
        return visitor

    async def close(self) -> None:
        for watch in list(self._watches):
            await self._forget(watch)

    async def _introduce(self, queue: RemoteQueue) -> Caller:
        caller = await _introduce(queue)
        if self._is_public and not caller.name:
            raise UnauthenticatedError(
                "these brokers ask nobody for a token, so everybody could do everything here; say --insecure"
                " if the network itself is protected"
            )
        return caller

    async def _forget(self, watch: Watch) -> None:
        self._watches.discard(watch)
        await watch.close()


async def _introduce(queue: RemoteQueue) -> Caller:
    async def ask(brokers: Any, address: str) -> Caller:
        assert isinstance(brokers, MessageBrokers)
        name, names = await brokers.who_am_i(address)
        roles = set()
        for role in names:
            # A newer broker may know more of them.
            with suppress(ValueError):
                roles.add(Role(role))
        return Caller(name, frozenset(roles or {Role.VIEWER}))

    return await queue.ask(ask)


def _was_refused(watch: Watch) -> bool:
    return watch.trouble is not None and isinstance(watch.trouble.error, UnauthenticatedError)


def _authorization(token: str | None) -> str | None:
    return None if token is None else f"Bearer {token}"
