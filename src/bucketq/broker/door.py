"""Door: whoever asks something of a broker, by whatever way, comes in here.

Who is inside stays no longer than their token is good: a worker that waits for jobs gets none that come
after its token was revoked.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import perf_counter

from bucketq.broker.access import ANYBODY, Caller, Role
from bucketq.broker.allowance import Allowance
from bucketq.broker.sent_trace import asked_within
from bucketq.broker.token_file import LOOK_EVERY_S, TokenFile
from bucketq.broker.tokens import Tokens
from bucketq.broker.turnstile import Turnstile
from bucketq.errors import ConfigurationError, UnauthenticatedError
from bucketq.trace_context import TraceContext

log = logging.getLogger("bucketq")


# Told of each visit: the way by which somebody came, what they asked, how that ended, and how long it took.
Answered = Callable[[str, str, str, float], None]


def _count_nothing(way: str, method: str, outcome: str, seconds: float) -> None:
    pass


class Door:
    """Lets callers in, as often as they may come. Without tokens everybody may do everything.

    Raises ConfigurationError if there are none among those given.
    """

    def __init__(
        self,
        tokens: Tokens | None = None,
        turnstile: Turnstile | None = None,
        answered: Answered = _count_nothing,
    ) -> None:
        # Later, when the last one is revoked, nobody comes in; but nobody makes a door for nobody.
        if tokens is not None and not len(tokens):
            raise ConfigurationError("there is no token among those given: make one with `bucketq token new`")
        self._tokens = tokens
        self._turnstile = turnstile or Turnstile(Allowance())
        self._answered = answered
        self._inside: dict[asyncio.Timeout, tuple[str | None, Caller]] = {}

    def admit(self, authorization: str | None, peer: str) -> Caller:
        """Whoever shows this header, from that address.

        Raises UnauthenticatedError and TooManyRequestsError. Those who have no token are counted too, so
        that nobody can try one after the other.
        """
        try:
            known = self._caller_of(authorization)
        except UnauthenticatedError:
            self._turnstile.enter(peer)
            raise
        caller = Caller(known.name, known.roles, peer)
        self._turnstile.enter(caller.client)
        return caller

    def knows(self, authorization: str | None) -> bool:
        """Whether whoever shows this header would be let in. It counts as no request."""
        try:
            self._caller_of(authorization)
        except UnauthenticatedError:
            return False
        return True

    def welcomes(self, authorization: str | None, caller: Caller) -> bool:
        """Whether whoever was let in by this header is still who they were then."""
        return self.knows(authorization) and self._caller_of(authorization) == caller

    @asynccontextmanager
    async def visit(
        self,
        authorization: str | None,
        peer: str,
        role: Role,
        way: str = "",
        method: str = "",
        sent: TraceContext | None = None,
    ) -> AsyncIterator[Caller]:
        """Admit somebody who has a role for as long as the block takes; it ends early if their token does.

        `way` and `method` are what the visit is counted as, `sent` is the trace that it is of. Raises
        ForbiddenError, and UnauthenticatedError, also when the token is revoked or expires meanwhile.
        """
        began_s, outcome = perf_counter(), "ok"
        try:
            async with self._stay(authorization, peer, role) as caller:
                if sent is None or sent.traceparent is None:
                    yield caller
                else:
                    with asked_within(sent, way, method, caller.name):
                        yield caller
        except BaseException as error:
            outcome = type(error).__name__
            raise
        finally:
            self._answered(way, method, outcome, perf_counter() - began_s)

    @asynccontextmanager
    async def _stay(self, authorization: str | None, peer: str, role: Role) -> AsyncIterator[Caller]:
        caller = self.admit(authorization, peer)
        caller.need(role)
        if self._tokens is None:
            yield caller
            return
        stay = asyncio.timeout(None)
        try:
            async with stay:
                self._inside[stay] = authorization, caller
                try:
                    yield caller
                finally:
                    self._inside.pop(stay, None)
        except TimeoutError:
            if stay.expired():
                raise UnauthenticatedError("this token was revoked, or has expired, meanwhile") from None
            raise

    async def keep(self, file: TokenFile | None) -> None:
        """Follow the file of the tokens as it changes, and let nobody overstay, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if file is not None:
                self._follow(file)
            self._expel()

    def _follow(self, file: TokenFile) -> None:
        try:
            tokens = file.look()
        except ConfigurationError as error:
            log.error("%s. The tokens stay as they were.", error)
            return
        if tokens is not None:
            self._tokens = tokens
            log.info("the tokens have changed; there are %d now", len(tokens))

    def _expel(self) -> None:
        # Thousands may stay by the same token, which is looked at once.
        unwelcome = {who for who in set(self._inside.values()) if not self.welcomes(*who)}
        for stay, who in list(self._inside.items()):
            if who in unwelcome:
                del self._inside[stay]
                stay.reschedule(asyncio.get_running_loop().time())

    def _caller_of(self, authorization: str | None) -> Caller:
        if self._tokens is None:
            return ANYBODY
        scheme, _, secret = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not secret.strip():
            raise UnauthenticatedError(
                "authentication required. Set BUCKETQ_TOKEN or BUCKETQ_TOKEN_FILE"
                " (HTTP: `Authorization: Bearer …`)."
            )
        return self._tokens.caller_of(secret.strip(), datetime.now(UTC))
