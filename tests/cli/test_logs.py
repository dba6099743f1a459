"""Lines of the log: for people and for programs, with the job that they are about."""

import io
import json
import logging
from contextlib import contextmanager, redirect_stderr
from datetime import UTC, datetime

from msgspec.structs import replace

from bucketq import Job
from bucketq.cli.logs import Logs, log_to_stderr
from bucketq.log_fields import fields_of, logged_as

JOB = Job(
    id="01a1",
    entrypoint="mail",
    payload=b'"hunter2"',
    token="secret",
    worker="web:1",
    attempts=2,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)


@contextmanager
def new_program():
    """Loggers as in a program that has just begun; what it writes to stderr."""
    names = (None, "bucketq", "uvicorn", "asyncio", "opentelemetry", "urllib3")
    before = [(one := logging.getLogger(name), one.handlers, one.level) for name in names]
    for logger, _, _ in before:
        logger.handlers = []
    try:
        with redirect_stderr(io.StringIO()) as output:
            yield lambda: output.getvalue().splitlines()
    finally:
        for logger, handlers, level in before:
            logger.handlers = handlers
            logger.setLevel(level)


def write():
    with logged_as(JOB):
        logging.getLogger("shop").info("connected")
    logging.getLogger("shop").info("idle")
    logging.getLogger("bucketq").info("job 01a1 is late", extra=fields_of(JOB))


def test_json_lines_tell_of_the_job_in_fields():
    with new_program() as lines:
        log_to_stderr(Logs(log_format="json"), with_handlers=True)
        write()
        connected, idle, late = map(json.loads, lines())
        fields = {"job_id": "01a1", "entrypoint": "mail", "attempt": 2, "worker": "web:1"}
        assert connected == {**connected, **fields, "message": "connected", "level": "info", "logger": "shop"}
        assert late == {**late, **fields, "message": "job 01a1 is late"}
        assert idle.keys() == {"time", "level", "message", "logger"}
        assert not {"hunter2", "secret"} & set("".join(lines()).split('"'))


def test_lines_of_text_end_with_the_job_unless_they_name_it():
    with new_program() as lines:
        log_to_stderr(Logs(), with_handlers=True)
        write()
        connected, idle, late = lines()
        assert connected.endswith("INFO    connected [mail 01a1]")
        assert idle.endswith("INFO    idle")
        assert late.endswith("INFO    job 01a1 is late")


def test_no_line_is_lost_for_what_a_handler_logs():
    with new_program() as lines:
        log_to_stderr(Logs(log_format="json"), with_handlers=True)
        with logged_as(JOB):
            logging.getLogger("shop").info("file \udcff", extra={"worker": {1j}, "attempt": "\udcff"})
        [line] = map(json.loads, lines())
        assert (line["message"], line["worker"], line["attempt"]) == ("file ?", "{1j}", "?")
    with new_program() as lines:
        log_to_stderr(Logs(), with_handlers=True)
        logging.getLogger("cron").info("begun", extra={"job_id": 7})
        assert [line.split()[-1] for line in lines()] == ["begun"]


def test_what_clients_send_makes_no_lines_of_its_own():
    forged = "a\n2026-01-01 00:00:00,000 INFO    all is well\x1b[2J"
    with new_program() as lines:
        log_to_stderr(Logs(), with_handlers=True)
        logging.getLogger("bucketq").info("job %s is late", forged)
        with logged_as(replace(JOB, id=forged)):
            logging.getLogger("shop").info("connected")
        late, connected = lines()
        assert late.endswith(r"job a\n2026-01-01 00:00:00,000 INFO    all is well\x1b[2J is late")
        assert connected.endswith(r"all is well\x1b[2J]")


def test_an_app_that_logs_in_its_own_way_is_left_alone():
    with new_program() as lines:
        own = logging.NullHandler()
        logging.getLogger().addHandler(own)
        log_to_stderr(Logs(), with_handlers=True)
        logging.getLogger("shop").warning("mine")
        logging.getLogger("bucketq").info("ours")
        assert [line.split()[-1] for line in lines()] == ["ours"]
        assert logging.getLogger().handlers == [own]


def test_a_collector_that_is_away_is_told_once():
    with new_program() as lines:
        log_to_stderr(Logs())
        for _ in range(5):
            logging.getLogger("opentelemetry.exporter").warning("refused")
        assert len(lines()) == 1
