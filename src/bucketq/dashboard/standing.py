"""Standing: how it is with the queue and its leader, in a word for the header, a sentence for the banner."""

from enum import StrEnum
from typing import NamedTuple

from bucketq.dashboard.house import House
from bucketq.dashboard.watch import Trouble, Watch
from bucketq.errors import BrokerUnavailableError, NotLeaderError, OutcomeUnknownError
from bucketq.words import first_line, spell_time


class State(StrEnum):
    """What the header says."""

    READING = "reading"
    PAUSED = "paused"
    STANDBY = "standby"
    CHANGING = "leader changing"
    AWAY = "out of reach"
    BEGINNING = "first look"


class Standing(NamedTuple):
    """The state; what the banner says of it, if anything; and whose dashboard is better."""

    state: State
    told: str = ""
    leader_http: str = ""


def standing(watch: Watch, house: House) -> Standing:
    """How it is now."""
    if watch.trouble is not None:
        return _of_trouble(watch, watch.trouble)
    look = watch.look
    if look is None:
        return Standing(State.BEGINNING)
    leader = look.state.leader
    if leader is None and watch.had_leader:
        return Standing(
            State.CHANGING,
            "No broker leads at the moment. The next one takes over within seconds; nothing is lost.",
        )
    if leader is not None and watch.pulse.is_silent(watch.now_s):
        silent = spell_time(watch.pulse.silent_s(watch.now_s))
        return Standing(
            State.CHANGING,
            f"The leader at {leader.address or leader.http} has been silent for {silent}. If it stays so,"
            " another broker takes over; nothing is lost.",
        )
    if house.obstacle:
        where = f"{leader.http or leader.address} does" if leader is not None else "none does yet"
        return Standing(
            State.STANDBY,
            f"This broker does not lead; {where}. Here you can only look.",
            leader.http if leader is not None else "",
        )
    if look.state.limits.is_paused:
        return Standing(
            State.PAUSED, "The queue is paused: jobs are enqueued, and none begins until it is resumed."
        )
    return Standing(State.READING)


def _of_trouble(watch: Watch, trouble: Trouble) -> Standing:
    seen = f" What you see is of {watch.look.at:%H:%M:%S} UTC." if watch.look is not None else ""
    lasted = spell_time(watch.now_s - trouble.since_s)
    is_of_brokers = isinstance(trouble.error, BrokerUnavailableError | NotLeaderError | OutcomeUnknownError)
    if trouble.error is None or is_of_brokers:
        return Standing(
            State.CHANGING,
            f"No answer for {lasted}: the leader may be changing, or the storage is slow.{seen}",
        )
    reason = first_line(trouble.reason).rstrip(".")
    return Standing(State.AWAY, f"The queue has been out of reach for {lasted}: {reason}.{seen}")
