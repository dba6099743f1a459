"""Settings: which of several places counts, what is refused, and what `bucketq config` tells."""

import json
import socket
from pathlib import Path

import pytest

from bucketq import Settings
from tests.cli.typed import typed


@pytest.fixture
def run(capsys):
    return lambda *arguments: typed(capsys, *arguments)


@pytest.fixture
def config(run):
    """What `bucketq config` tells: the value of each setting, and where it comes from."""

    def config(*arguments):
        told = run("config", "--json", *arguments)
        assert told.code == 0, told.err
        return {row["setting"]: (row["value"], row["from"]) for row in told.json}

    return config


def write(text, name="bucketq.toml"):
    Path(name).write_text(text)


def test_a_flag_wins_over_a_variable_that_over_the_file_and_that_over_the_default(config, monkeypatch):
    flag = ("serve", "--grpc-port", "7401")
    assert config("serve")["serve.grpc_port"] == (7420, "default")
    write("[serve]\ngrpc_port = 7403\n")
    assert config("serve")["serve.grpc_port"] == (7403, "bucketq.toml")
    monkeypatch.setenv("BUCKETQ_GRPC_PORT", "7402")
    assert config("serve")["serve.grpc_port"] == (7402, "BUCKETQ_GRPC_PORT")
    assert config(*flag)["serve.grpc_port"] == (7401, "flag")
    assert config()["serve.grpc_port"] == (7402, "BUCKETQ_GRPC_PORT")


def test_a_list_may_be_one_value_and_one_value_is_no_list(run, config):
    write('[serve]\ncors_origin = "https://a.example"\n')
    assert config("serve")["serve.cors_origin"] == (["https://a.example"], "bucketq.toml")
    write('[serve]\nhost = ["127.0.0.1"]\n')
    told = run("config")
    assert told.code == 2
    assert "[serve] host" in told.err


def test_the_queue_is_found_in_the_same_order(run, tmp_path, monkeypatch):
    def used():
        return run("enqueue", "mail").code, sorted(path.name for path in tmp_path.glob("*.json"))

    assert run("enqueue", "mail").code == 2
    write(f'url = "file://{tmp_path}/of-file.json"\n')
    assert used() == (0, ["of-file.json"])
    monkeypatch.setenv("BUCKETQ_URL", f"file://{tmp_path}/of-variable.json")
    assert used() == (0, ["of-file.json", "of-variable.json"])
    assert run("enqueue", "mail", "--url", f"file://{tmp_path}/of-flag.json").code == 0
    assert (tmp_path / "of-flag.json").exists()


def test_queue_settings_reach_a_queue_that_a_command_opens(run, tmp_path, monkeypatch):
    url = f"file://{tmp_path}/queue.json"
    write("[queue]\npayload_bytes_max = 10\n")
    told = run("enqueue", "mail", '"more than ten bytes"', "--url", url)
    assert told.code == 2
    assert "payload_bytes_max" in told.err
    monkeypatch.setenv("BUCKETQ_PAYLOAD_BYTES_MAX", "100")
    assert run("enqueue", "mail", '"more than ten bytes"', "--url", url).code == 0


def test_another_file_is_named_by_flag_or_variable(run, config, tmp_path, monkeypatch):
    write("[work]\nconcurrency = 3\n", "other.toml")
    monkeypatch.setenv("BUCKETQ_CONFIG", "other.toml")
    assert config("work")["work.concurrency"] == (3, "other.toml")
    write("[work]\nconcurrency = 4\n", "named.toml")
    told = run("--config", "named.toml", "config", "work", "--json").json
    assert {"setting": "work.concurrency", "value": 4, "from": "named.toml"} in told
    missing = run("--config", "missing.toml", "config")
    assert (missing.code, missing.out) == (2, "")
    assert "bucketq init" in missing.err


@pytest.mark.parametrize(
    ("content", "hints"),
    [
        ("[serve]\ngrpc_prot = 1", ("'grpc_prot'", "[serve]", "did you mean grpc_port?")),
        ("[server]\ngrpc_port = 1", ("'server'", "did you mean serve?")),
        ("grpc_port = 1", ("'grpc_port'", "it belongs in [serve]")),
        ("stale_after_s = 1", ("'stale_after_s'", "it belongs in [queue]")),
        ("[queue]\nstale_after = 1", ("'stale_after'", "did you mean stale_after_s?")),
        ("[serve]\nxyzzy = 1", ("'xyzzy'", "`bucketq config` lists all settings")),
        ("url = 3", ("url is a text",)),
        ('[serve]\ngrpc_port = "many"', ("[serve] grpc_port",)),
        ("[serve]\ngrpc_port = 2.5", ("[serve] grpc_port",)),
        ("[serve\n", ("is no TOML", "line 1")),
    ],
)
def test_what_the_file_must_not_say_is_refused_by_name(run, content, hints):
    write(content)
    told = run("config")
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("bucketq: bucketq.toml")
    assert told.err.count("\n") == 1
    for hint in hints:
        assert hint in told.err


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("BUCKETQ_GRPC_PROT", "did you mean BUCKETQ_GRPC_PORT?"),
        ("BUCKETQ_STALE_AFTER", "did you mean BUCKETQ_STALE_AFTER_S?"),
        ("BUCKETQ_ULR", "did you mean BUCKETQ_URL?"),
    ],
)
def test_a_variable_that_is_none_is_refused_by_name(run, monkeypatch, name, hint):
    monkeypatch.setenv(name, "1")
    told = run("config")
    assert (told.code, told.out) == (2, "")
    assert name in told.err
    assert hint in told.err


def test_the_variables_of_kubernetes_are_left_alone(run, monkeypatch):
    for name, value in {
        "BUCKETQ_SERVICE_HOST": "10.0.0.7",
        "BUCKETQ_SERVICE_PORT": "7420",
        "BUCKETQ_SERVICE_PORT_GRPC": "7420",
        "BUCKETQ_PORT": "tcp://10.0.0.7:7420",
        "BUCKETQ_PORT_7420_TCP": "tcp://10.0.0.7:7420",
        "BUCKETQ_PORT_7420_TCP_ADDR": "10.0.0.7",
        "BUCKETQ_BROKERS_SERVICE_HOST": "10.0.0.8",
    }.items():
        monkeypatch.setenv(name, value)
    assert run("config").code == 0


@pytest.mark.parametrize(
    ("content", "hint"),
    [("stale_after_s = -1", "stale_after_s"), ('sole_writer = "maybe"', "sole_writer")],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(run, tmp_path, content, hint):
    write(f"[queue]\n{content}\n")
    told = run("stats", f"file://{tmp_path}/queue.json")
    assert (told.code, told.out) == (2, "")
    assert hint in told.err


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[serve]\nheartbeat_interval_s = 20", ["--heartbeat-interval-s (20)", "--heartbeat-timeout-s (10)"]),
        ('[serve]\ntls_cert = "cert.pem"', ["--tls-cert", "--tls-key"]),
        ("[work]\nuntil_empty = true", ["--until-empty", "--on spark"]),
        ("[work]\nconcurrency = 0", ["--concurrency"]),
    ],
)
def test_config_refuses_what_a_command_could_not_run_with(run, text, names):
    write(text)
    section = text[1:].partition("]")[0]
    for command in (["config"], ["config", section]):
        told = run(*command)
        assert (told.code, told.err.count("\n")) == (2, 1), told
        assert all(name in told.err for name in names), told.err
    other = {"serve": "work", "work": "serve"}[section]
    assert run("config", other).code == 0, "which has nothing to do with it"


def test_config_shows_values_as_the_file_has_them(run):
    write('[serve]\ninsecure = true\ncors_origin = ["https://a.example", "https://b.example"]\n')
    lines = {line.split()[0]: line.split()[1:] for line in run("config", "serve").out.splitlines()[2:]}
    assert lines["serve.insecure"] == ["true", "bucketq.toml"]
    assert lines["serve.no_grpc"] == ["false", "default"]
    assert lines["serve.cors_origin"] == ['["https://a.example","https://b.example"]', "bucketq.toml"]


def test_what_contradicts_itself_is_refused(run, monkeypatch, tmp_path):
    here, there = f"file://{tmp_path}/a.json", f"file://{tmp_path}/b.json"
    told = run("stats", here, "--url", there)
    assert told.code == 2
    assert here in told.err
    assert there in told.err
    monkeypatch.setenv("BUCKETQ_TOKEN", "bq_one")
    monkeypatch.setenv("BUCKETQ_TOKEN_FILE", str(tmp_path / "token"))
    told = run("stats", "grpc://127.0.0.1:1")
    assert told.code == 2
    assert "BUCKETQ_TOKEN_FILE" in told.err
    assert "bq_one" not in told.err


def test_config_tells_every_setting_of_a_queue_once(config):
    told = config()
    for name in Settings.__dataclass_fields__:
        assert told[f"queue.{name}"][1] == "default"


def test_config_tells_what_one_command_would_run_with(config):
    told = config("pipeline", "run", "--out", "lake-2")
    assert told["pipeline.out"] == ("lake-2", "flag")
    assert not [name for name in told if name.startswith("serve.")]
    assert config("work", "--concurrency", "5")["work.concurrency"] == (5, "flag")
    assert config("replay", "--out", "lake-3")["pipeline.out"] == ("lake-3", "flag")


@pytest.mark.parametrize(
    "arguments",
    [("nope",), ("pipeline", "nope"), ("serve", "--grpc-port", "many"), ("serve", "--grpc-prot", "1")],
)
def test_config_refuses_what_the_command_would(run, arguments):
    told = run("config", *arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.count("\n") == 1


def test_a_token_is_never_shown(run, monkeypatch, tmp_path):
    monkeypatch.setenv("BUCKETQ_TOKEN", "bq_secret")
    monkeypatch.setenv("BUCKETQ_TOKENS", "web:producer:feedbeef")
    monkeypatch.setenv("BUCKETQ_RETRY_FOR_S", "0.2")
    for arguments in (("config",), ("config", "--json"), ("config", "serve"), ("stats", "grpc://127.0.0.1")):
        told = run(*arguments)
        assert "secret" not in told.out + told.err
        assert "feedbeef" not in told.out + told.err
    assert "BUCKETQ_TOKEN " in run("config").out
    assert json.loads(run("config", "--json").out)[1]["value"] == "(set)"


@pytest.mark.parametrize("variable", ["BUCKETQ_TOKEN", "BUCKETQ_TOKEN_FILE"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("stats",),
        ("work", "jobs:app"),
        ("dashboard",),
        ("doctor",),
        ("init",),
        ("diff", "before.json"),
        ("pipeline", "run"),
    ],
)
def test_a_file_alone_does_not_decide_where_a_token_is_sent(run, monkeypatch, tmp_path, variable, arguments):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"grpc://127.0.0.1:{listener.getsockname()[1]}"
        write(f'url = "{url}"\n')
        (tmp_path / "token").write_text("bq_secret")
        (tmp_path / "before.json").write_text('{"version": 1, "jobs": []}')
        monkeypatch.setenv(variable, "bq_secret" if variable == "BUCKETQ_TOKEN" else str(tmp_path / "token"))
        told = run(*arguments)
        assert (told.code, told.out) == (2, "")
        assert f"bucketq.toml alone does not decide where {variable} is sent" in told.err
        assert f"If you trust {url}, set BUCKETQ_URL to it or pass it with --url" in told.err
        assert run("--config", "bucketq.toml", *arguments).code == 2
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_token_goes_where_the_environment_or_the_command_line_say(run, monkeypatch):
    url = "grpc://127.0.0.1:1"
    write(f'url = "{url}"\n')
    monkeypatch.setenv("BUCKETQ_RETRY_FOR_S", "0.1")
    assert "no broker" in run("stats").err, "without a token anybody may be asked"
    monkeypatch.setenv("BUCKETQ_TOKEN", "bq_secret")
    assert "does not decide" in run("stats").err
    assert "no broker" in run("stats", url).err
    assert "no broker" in run("stats", "--url", url).err
    monkeypatch.setenv("BUCKETQ_URL", url)
    assert "no broker" in run("stats").err


@pytest.mark.parametrize("query", ["endpoint_url=http://127.0.0.1:1", "endpoint%5Furl=http://127.0.0.1:1"])
@pytest.mark.parametrize("scheme", ["gs", "az", "GS"])
def test_a_file_alone_does_not_decide_where_the_credentials_of_a_cloud_are_sent(run, scheme, query):
    write(f'url = "{scheme}://bucket/jobs.json?{query}"\n')
    told = run("stats")
    assert told.code == 2
    assert f"where the credential for {scheme.lower()}:// is sent" in told.err


SECRET = "s3://key:opensesame@bucket/jobs.json"


@pytest.mark.parametrize("arguments", [["config"], ["stats"], ["stats", "--url", "file:///tmp/queue.json"]])
def test_the_secret_of_a_url_is_never_shown(run, monkeypatch, arguments):
    monkeypatch.setenv("BUCKETQ_URL", SECRET)
    of_variable = run(*arguments)
    monkeypatch.delenv("BUCKETQ_URL")
    write(f'url = "{SECRET}"\n')
    of_file = run(*arguments)
    for told, origin in ((of_variable, "BUCKETQ_URL"), (of_file, "bucketq.toml")):
        assert (told.code, told.out) == (2, "")
        assert told.err.startswith(f"bucketq: the URL of {origin} has credentials before its '@'")
        assert "opensesame" not in told.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["stats", SECRET, "--url", "s3://bucket/other.json"],
        ["diff", SECRET.replace("s3", "http"), "--from", "3"],
        ["work", "jobs:app", "--url", SECRET],
    ],
)
def test_nor_is_that_of_one_that_is_typed(run, arguments):
    told = run(*arguments)
    assert (told.code, told.out) == (2, "")
    assert "opensesame" not in told.err
