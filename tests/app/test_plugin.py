"""The pytest plugin, in a pytest of its own that loads no others, be it installed or not."""

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
JOBS = """
from bucketq import App

app = App("memory://")
sent = []

@app.job
async def send(to: str) -> None:
    sent.append(to)
"""


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, *plugins: str) -> pytest.RunResult:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    options = [option for plugin in ("pytest_bucketq", *plugins) for option in ("-p", plugin)]
    return pytester.runpytest_subprocess("-W", "error", "-q", *options, timeout=60)


def test_a_fixture_for_tests_with_and_without_async(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.makepyfile(
        myjobs=JOBS,
        test_it="""
            import pytest
            from bucketq import BrokerQueue
            from bucketq.testing import testing
            from myjobs import app, send, sent

            def test_without_async(bucketq_testing):
                jobs = bucketq_testing(app)
                send.enqueue_sync("alice")
                jobs.assert_enqueued(send, to="alice")
                jobs.drain_sync()
                assert sent == ["alice"]

            @pytest.mark.asyncio
            async def test_with_async(bucketq_testing):
                jobs = bucketq_testing(app, inline=True)
                jobs.assert_not_enqueued(send)
                await send.enqueue("bob")
                assert sent == ["alice", "bob"]

            def test_it_is_over_with_the_test():
                send.enqueue_sync("carol")
                assert sent == ["alice", "bob"]
                assert type(app.run_sync(app.opened())) is BrokerQueue

            def test_a_failure_is_told(bucketq_testing):
                jobs = bucketq_testing(app)
                send.enqueue_sync("dan")
                jobs.assert_enqueued(send, to="eve")
        """,
    )
    done = run(pytester, monkeypatch, "pytest_asyncio.plugin")
    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines(
        ["E*send(to='eve') was enqueued 0 times, not once. These were:", "E*send(to='dan')"]
    )


def test_without_the_fixture_bucketq_is_not_imported(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            assert "pytest_bucketq" in sys.modules
            assert "bucketq" not in sys.modules
        """
    )
    run(pytester, monkeypatch).assert_outcomes(passed=1)


def test_the_package_names_its_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    name = project["project"]["entry-points"]["pytest11"]["bucketq"]
    assert hasattr(import_module(name), "bucketq_testing")
    assert f"src/{name}" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
