"""Seeker: what a client does when the broker that it asks has no answer."""

import pytest

from bucketq import ForbiddenError, TooManyRequestsError, UnauthenticatedError
from bucketq.errors import ConfigurationError, NotLeaderError, OutcomeUnknownError
from bucketq.mint import Mint
from bucketq.remote.brokers import UnreachableError, check_way
from bucketq.remote.seeker import Seeker
from bucketq.testing.virtual_time import VirtualClock, virtual_time


@virtual_time
async def ask(*answers):
    """Ask brokers a:1 and b:1, which answer, or raise, these one after the other; return the result, or
    the error, and who was asked when."""
    left, asked = list(answers), []
    clock = VirtualClock()
    seeker = Seeker(["a:1", "b:1"], None, 30, clock, Mint())

    async def question(address):
        asked.append((address, clock.monotonic_s()))
        told = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(told, Exception):
            raise told
        return told

    try:
        return await seeker.ask(question), asked
    except Exception as error:
        return error, asked


def test_a_broker_that_has_enough_is_asked_again_when_it_says():
    told, asked = ask(TooManyRequestsError("enough", 7.0), TooManyRequestsError("enough", 3.0), "done")
    assert told == "done"
    (first, began_s), (second, then_s), (third, end_s) = asked
    assert first == second == third == "a:1", "it is the leader all the same"
    assert then_s - began_s >= 7
    assert end_s - then_s >= 3


def test_a_broker_that_never_has_room_is_told_as_that_in_the_end():
    told, asked = ask(TooManyRequestsError("enough", 1e9))
    assert isinstance(told, TooManyRequestsError)
    assert asked[-1][1] - asked[0][1] < 60


def test_what_may_have_been_done_before_stays_open():
    told, _ = ask(UnreachableError("gone", was_sent=True), TooManyRequestsError("enough", 40.0))
    assert isinstance(told, OutcomeUnknownError)


@pytest.mark.parametrize(
    ("answers", "warnings"),
    [
        ([UnreachableError("no connection to a:1", was_sent=False)], 1),
        ([*[UnreachableError("handing over", was_sent=False)] * 3, "done"], 0),
    ],
)
def test_who_waits_for_long_is_told_once_why(answers, warnings, caplog):
    ask(*answers)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == ["not answered by a broker yet, trying for up to 30 s: no connection to a:1"] * warnings


@pytest.mark.parametrize("error", [UnauthenticatedError("who?"), ForbiddenError("no")])
def test_whoever_is_not_let_in_hears_it_at_once(error):
    told, asked = ask(error)
    assert told is error
    assert len(asked) == 1


@pytest.mark.parametrize("address", ["localhost:1@evil.example", "localhost/evil", "localhost:80#", "a b:1"])
def test_no_token_goes_to_what_is_no_address(address):
    with pytest.raises(ConfigurationError, match="no address"):
        check_way(address, "bq_secret", is_encrypted=True)


def test_a_broker_that_names_itself_is_left_for_the_next_one():
    told, asked = ask(NotLeaderError("a:1"), "done")
    assert (told, [address for address, _ in asked]) == ("done", ["a:1", "b:1"])


def test_the_leader_that_another_broker_names_is_asked_next():
    told, asked = ask(NotLeaderError("c:1"), "done")
    assert told == "done"
    assert [address for address, _ in asked] == ["a:1", "c:1"]
