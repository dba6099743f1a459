"""`bucketq pipeline`, `bucketq replay` and the demo, as people run them."""

import os
import subprocess
import sys
from datetime import UTC, datetime

from .java import need_java

BUCKETQ = [sys.executable, "-m", "bucketq"]


def command(*arguments, cwd, code=0):
    need_java()
    done = subprocess.run([*BUCKETQ, *arguments], cwd=cwd, capture_output=True, text=True, timeout=110)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_run_report_and_replay(queue, tmp_path):
    queue.finish("mail", range(200), batch=100, at=datetime(2026, 2, 15, 12, tzinfo=UTC))
    small = ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]
    ran = command("pipeline", "run", "--url", queue.url, "--out", "lake", *small, cwd=tmp_path)
    assert "days made anew: 2026-02-15" in ran.stdout
    assert "as many jobs as queue.json counts: yes (200 jobs in the lake, 0 days differ)" in ran.stdout
    assert ran.stderr == "", "Spark is silent"
    told = command("pipeline", "report", "--out", "lake", "--html", "page.html", *small, cwd=tmp_path)
    assert told.stdout == "page.html is written\n"
    assert "200 jobs were finished" in (tmp_path / "page.html").read_text()
    where = ["--where", "get_json_object(payload_json, '$') < 3"]
    done = command("replay", "--url", queue.url, "--out", "lake", *where, *small, cwd=tmp_path)
    assert done.stdout.startswith("3 jobs were chosen")
    assert sorted(job.json() for job in queue.drain()) == [0, 1, 2]


def test_a_failed_check_and_a_mistake_have_exit_codes_of_their_own(queue, tmp_path):
    queue.finish("mail", range(20), batch=10, at=datetime(2026, 2, 15, 12, tzinfo=UTC))
    (queue.path.parent / "queue" / queue.objects("archive")[0]).write_text("[\n]\n")
    url = ["--url", queue.url, "--master", "local[2]"]
    failed = command("pipeline", "run", *url, "--out", "lake", cwd=tmp_path, code=1)
    assert "as many jobs as queue.json counts: NO" in failed.stdout
    wrong = command("pipeline", "run", *url, "--conf", "nonsense", cwd=tmp_path, code=2)
    assert wrong.stderr == "bucketq: --conf takes KEY=VALUE, not 'nonsense'\n"
    missing = command("pipeline", "report", "--out", "nowhere", "--watch", "5", cwd=tmp_path, code=2)
    assert "needs --url" in missing.stderr


def test_the_demo_ends_with_a_report(tmp_path):
    need_java()
    env = os.environ | {"TMPDIR": str(tmp_path)}
    demo = [sys.executable, "-m", "bucketq.demo"]
    done = subprocess.run(demo, env=env, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    [page] = tmp_path.glob("bucketq-demo-*/report.html")
    assert page.as_uri() in done.stdout
    assert "303 jobs were finished; 1 of them failed for good" in page.read_text()
