"""`bucketq enqueue`: where payloads come from, and what becomes of them."""

import asyncio
import subprocess
import sys

import pytest

import bucketq


def enqueue(url, *arguments, stdin=b""):
    command = [sys.executable, "-m", "bucketq", "enqueue", "send", *arguments, "--url", url]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60)


def payloads(url):
    async def read():
        async with bucketq.connect(url) as queue:
            return [job.payload async for job in queue.jobs()]

    return asyncio.run(read())


@pytest.fixture
def url(tmp_path):
    return (tmp_path / "queue.json").as_uri()


def test_lines_are_json_whatever_ends_them_and_blank_ones_are_none(url):
    done = enqueue(url, "--lines", "-", stdin=b' {"n": 1} \r\n\r\n   \n{"n": 2}')
    assert (done.returncode, done.stdout) == (0, b"2 jobs enqueued\n")
    assert payloads(url) == [b'{"n":1}', b'{"n":2}']


def test_raw_lines_are_taken_as_they_are(url):
    done = enqueue(url, "--lines", "--raw", "-", stdin=b"  a b \t\r\n\n\xff \n \n")
    assert (done.returncode, done.stdout) == (0, b"3 jobs enqueued\n")
    assert payloads(url) == [b"  a b \t", b"\xff ", b" "]


def test_a_line_that_is_no_json_is_named_and_nothing_is_enqueued(url):
    done = enqueue(url, "--lines", "-", stdin=b"1\n2\nthree\n4\n")
    assert done.returncode == 2
    assert b"line 3: the payload is no JSON" in done.stderr
    assert payloads(url) == []


def test_a_standard_input_that_is_closed_is_told(url):
    command = f"{sys.executable} -m bucketq enqueue send - --url {url} <&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bucketq: standard input is closed")
