"""`bucketq pipeline`, `bucketq replay` and the demo, as people run them."""

import os
import subprocess
import sys

import pytest

from .java import need_java

# Java starts slowly where the machine is busy.
pytestmark = pytest.mark.timeout(300)

BUCKETQ = [sys.executable, "-m", "bucketq"]


def command(*arguments, cwd, code=0):
    need_java()
    done = subprocess.run([*BUCKETQ, *arguments], cwd=cwd, capture_output=True, text=True, timeout=250)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_mistakes_are_told_in_one_line(queue, tmp_path):
    url = ["--url", queue.url]
    wrong = command("pipeline", "run", *url, "--conf", "nonsense", cwd=tmp_path, code=2)
    assert wrong.stderr == "bucketq: --conf takes KEY=VALUE, not 'nonsense'\n"
    missing = command("pipeline", "report", "--out", "nowhere", "--watch", "5", cwd=tmp_path, code=2)
    assert "needs --url" in missing.stderr
    unread = command("pipeline", "run", *url, "--targets", "none.toml", cwd=tmp_path, code=2)
    assert "the targets in none.toml cannot be read" in unread.stderr


def test_the_demo_ends_with_a_report(tmp_path):
    need_java()
    env = os.environ | {"TMPDIR": str(tmp_path)}
    demo = [sys.executable, "-m", "bucketq.demo"]
    done = subprocess.run(demo, env=env, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    [page] = tmp_path.glob("bucketq-demo-*/report.html")
    assert page.as_uri() in done.stdout
    assert "303 jobs were finished; 1 of them failed for good" in page.read_text()
