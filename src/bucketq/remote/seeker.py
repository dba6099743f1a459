"""Seeker: puts questions to the broker that leads, and seeks the next one when that is gone."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from bucketq.clock import Clock
from bucketq.deadline import with_time
from bucketq.errors import (
    BrokerUnavailableError,
    BucketQError,
    NotLeaderError,
    OutcomeUnknownError,
    TooManyRequestsError,
)
from bucketq.mint import Mint
from bucketq.patience import Patience
from bucketq.remote.brokers import UnreachableError
from bucketq.retry import Backoff

T = TypeVar("T")

log = logging.getLogger("bucketq")

# A broker that has not answered within this time may be asked again, or another one.
_ANSWER_WITHIN_S = 5.0
# Short at the longest: while nobody leads, everybody waits for the next one who does.
_BACKOFF = Backoff(first_s=0.02, cap_s=0.5, exponential=True)
# Longer than a leader needs to hand over to another one.
_LOUD_AFTER_S = 2.0


class Asking:
    """How far a question has got: whether a broker may have done what was asked, and what was wrong last."""

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.was_sent = self.is_under_way = False
        self.trouble: Exception = UnreachableError("no broker has answered", was_sent=False)


class Seeker:
    """Asks whoever leads; looks for the next one when that one is gone.

    It knows the brokers' addresses from the beginning, or `discover` finds the leader's.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        discover: Callable[[], Awaitable[str]] | None,
        retry_for_s: float,
        clock: Clock,
        mint: Mint,
    ) -> None:
        self._addresses = list(addresses)
        self._discover = discover
        self._retry_for_s = retry_for_s
        self._clock = clock
        self._mint = mint
        self._leader = self._addresses[0] if self._addresses else ""
        self._next = 1
        # Whether somebody was told that no broker answers.
        self._is_away = False

    async def ask(
        self,
        question: Callable[[str], Awaitable[T]],
        answer_within_s: float | None = _ANSWER_WITHIN_S,
        asking: Asking | None = None,
    ) -> T:
        """Put a question, which may be repeated, to the leader, until it is answered or the time is up.

        One that has begun before has had a part of its time, and those who share it state their own times.
        """
        began_s, is_shared = self._clock.monotonic_s(), asking is not None
        asking = asking or Asking(began_s)
        patience = Patience(self._retry_for_s, _BACKOFF, self._clock, self._mint, asking.since_s)
        while True:
            address, pause_s = "", 0.0
            try:
                address = await self._address()
                asking.is_under_way = True
                async with asyncio.timeout(answer_within_s):
                    answer = await question(address)
                self._is_away = False
                return answer
            except NotLeaderError as error:
                asking.was_sent |= error.may_be_done
                self._follow(address, error.address)
                asking.trouble = error
            except (UnreachableError, TimeoutError) as error:
                asking.was_sent |= not isinstance(error, UnreachableError) or error.was_sent
                self._follow(address, "")
                asking.trouble = error
            except TooManyRequestsError as error:
                pause_s = min(error.retry_after_s, self._retry_for_s)
                asking.trouble = error
            asking.is_under_way, waited_s = False, self._clock.monotonic_s() - began_s
            if patience.is_exhausted():
                told = self.gave_up(asking)
                raise (told if is_shared else with_time(told, waited_s)) from asking.trouble
            self._tell(address, asking.trouble, patience.attempts, waited_s)
            await patience.pause(pause_s)

    def _tell(self, address: str, trouble: Exception, attempts: int, waited_s: float) -> None:
        """Log that it is asked again; and once, loudly, when somebody may wonder why nothing happens."""
        if waited_s >= _LOUD_AFTER_S and not self._is_away:
            self._is_away = True
            log.warning(
                "not answered by a broker yet, trying for up to %g s: %s",
                self._retry_for_s,
                str(trouble) or repr(trouble),
            )
        else:
            level = logging.DEBUG if attempts else logging.INFO
            log.log(level, "asked the broker at %s, and ask again: %r", address, trouble)

    async def _address(self) -> str:
        if not self._leader and self._discover is not None:
            try:
                async with asyncio.timeout(_ANSWER_WITHIN_S):
                    self._leader = await self._discover()
            except (BucketQError, OSError) as error:
                log.warning("the leader's address could not be read: %s", error)
        if not self._leader and self._addresses:
            self._leader = self._addresses[self._next % len(self._addresses)]
            self._next += 1
        if not self._leader:
            raise UnreachableError("no broker leads at the moment", was_sent=False)
        return self._leader

    def _follow(self, asked: str, leader: str) -> None:
        # Somebody else may have found the new one meanwhile.
        if self._leader == asked:
            # Of two hosts with the same name, the one that was asked doesn't lead.
            self._leader = leader if leader != asked else ""

    def gave_up(self, asking: Asking) -> BucketQError:
        """What a caller is told whose time is up."""
        known, trouble = ", ".join(self._addresses) or "the address in queue.json", asking.trouble
        if asking.was_sent or asking.is_under_way:
            said = str(trouble) or repr(trouble)
            return OutcomeUnknownError(
                f"no broker has answered ({known}): {said.rstrip('.')}"
                f"{'' if said.endswith('?') else '.'}"
                " What was asked may have been done; look before repeating it.",
                trouble,
            )
        if isinstance(trouble, TooManyRequestsError):
            return trouble
        return BrokerUnavailableError(
            f"no broker could be reached ({known}): {trouble}."
            " Nothing was changed. Is one running (`bucketq serve`)?",
            trouble,
        )
