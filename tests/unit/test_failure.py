"""What is kept of an error: it can always be written, whatever somebody else's exception does."""

import pytest

from bucketq import ConfigurationError
from bucketq.failure import ERROR_MAX, TRACE_MAX, error_text, trace_text


class MuteError(Exception):
    """An exception that cannot say what it is."""

    def __str__(self):
        raise RuntimeError("no words")


def raised(error):
    try:
        raise error
    except type(error) as caught:
        return caught


def test_a_text_stays_one_and_an_exception_tells_its_type():
    assert error_text("sorry") == "sorry"
    assert error_text(ValueError("sorry")) == "ValueError: sorry"
    assert error_text(None) is None
    with pytest.raises(ConfigurationError, match="not 17"):
        error_text(17)


def test_an_exception_whose_text_raises_is_told_by_its_type():
    assert error_text(MuteError()) == "MuteError: (its text raised RuntimeError)"


def test_a_long_text_is_cut_and_says_so():
    assert error_text("x" * ERROR_MAX) == "x" * ERROR_MAX
    assert error_text("x" * (ERROR_MAX + 1)) == f"{'x' * ERROR_MAX} … (cut from {ERROR_MAX + 1} characters)"


def test_what_no_json_can_hold_is_replaced():
    assert error_text("a\ud800b") == "a?b"


def test_a_trace_is_that_of_an_exception_that_was_raised():
    assert trace_text("sorry") is None
    assert trace_text(ValueError("sorry")) is None
    trace = trace_text(raised(ValueError("sorry")))
    assert "test_failure.py" in trace
    assert "in raised: raise error" in trace


def test_of_a_long_trace_the_end_is_kept():
    def fall(depth):
        if depth == 0:
            raise ValueError("here")
        fall(depth - 1)

    with pytest.raises(ValueError, match="here") as caught:
        fall(50)
    trace = trace_text(caught.value)
    assert len(trace) <= TRACE_MAX
    assert trace.endswith('raise ValueError("here")')
    assert trace.count("in fall:") <= 8
