"""What /openapi.json says is true: a broker is asked all that it describes, and much that it does not."""

import json
import urllib.request
from base64 import b64encode

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from bucketq.broker.openapi import openapi
from tests.acceptance.hosted import hosted

# A stream of events has no end; tests/rest/test_events.py reads it.
schema = schemathesis.openapi.from_dict(openapi()).exclude(path="/v1/events")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with hosted(f"file://{tmp_path_factory.mktemp('openapi')}/queue.json") as broker:
        yield f"http://{broker.http}"


def test_it_is_served(address):
    with urllib.request.urlopen(f"{address}/openapi.json") as answer:
        assert json.load(answer) == json.loads(json.dumps(openapi()))


schemathesis.openapi.format("cron", st.sampled_from(["* * * * *", "30 9 * * MON-FRI", "0 0 29 2 *"]))
schemathesis.openapi.format("time-zone", st.sampled_from(["UTC", "Europe/Vienna"]))
schemathesis.openapi.format("base64", st.binary().map(lambda content: b64encode(content).decode()))


def shorten_waits(case):
    """What would be waited for is only waited for a little."""
    for fields in (case.body, case.query):
        wait = fields.get("wait") if isinstance(fields, dict) else None
        if isinstance(wait, float | int) and 0 < wait <= 300:
            fields["wait"] = 0.01


def spell_whole(value):
    """To JSON Schema 2.0 is a whole number too; a broker wants it without a point, and says so."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: spell_whole(one) for name, one in value.items()}
        case list():
            return [spell_whole(one) for one in value]
    return value


@schema.parametrize()
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_what_is_described_is_so(case, address):
    shorten_waits(case)
    if isinstance(case.body, dict):
        case.body.update(spell_whole(case.body))
    case.call_and_validate(base_url=address, timeout=20)
