"""flexchat serve: what it refuses, what it says, how it ends."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import attrs
import pytest
from flexchat_cli.main import main
from flexchat_web.commands.serve import ListenError, ServeError, ServeOptions, read_settings, serve
from flexchat_web.commands.serve import _listen as listen
from flexchat_web.token_file import TokenFileError


class Silent:
    def __init__(self):
        self.said = []

    def say(self, text, style=""):
        self.said.append(text)


def settings_of(*words, environ=None, **of_config):
    given = serve.make_context("serve", [*words]).params
    options = ServeOptions(**{field.name: given[field.name] for field in attrs.fields(ServeOptions)})
    terminal = Silent()
    return read_settings(options, terminal, environ or {}, **of_config), terminal.said


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.9"])
def test_on_this_machine_no_token_is_needed_and_the_configuration_may_be_edited(host):
    settings, _ = settings_of("--host", host)
    assert (settings.tokens, settings.edit) == ({}, True)
    assert "localhost" in settings.hosts


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "::", "example.org"])
def test_off_this_machine_it_refuses_without_a_token(host):
    """Tells how to give one."""
    with pytest.raises(ServeError, match=r"FLEXCHAT_TOKEN.*--token-file"):
        settings_of("--host", host)


def test_off_this_machine_nobody_edits_unless_that_is_said():
    environ = {"FLEXCHAT_TOKEN": "0123456789abcdef"}
    assert settings_of("--host", "0.0.0.0", environ=environ)[0].edit is False
    assert settings_of("--host", "0.0.0.0", "--edit", environ=environ)[0].edit is True
    assert settings_of("--read-only")[0].edit is False


def test_how_long_a_turn_goes_on_without_listeners_can_be_said():
    assert settings_of()[0].unheard_seconds == 60
    assert settings_of("--unheard-seconds", "0")[0].unheard_seconds == 0
    assert settings_of("--unheard-seconds", "2.5")[0].unheard_seconds == 2.5


@pytest.mark.parametrize("seconds", ["-1", "86401", "nan", "inf"])
def test_a_time_that_is_none_is_refused(seconds):
    with pytest.raises(ServeError, match="0 to 86,400 seconds"):
        settings_of("--unheard-seconds", seconds)


def test_a_token_file_is_the_servers(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("alice 0123456789abcdef\n")
    file.chmod(0o600)
    settings, said = settings_of("--host", "0.0.0.0", "--token-file", str(file))
    assert (settings.token_file, settings.tokens, said) == (file, {}, [])


def test_a_token_file_of_the_configuration_is_in_its_folder(tmp_path):
    """The command line goes first; roles that the configuration does not have are noted with file and line."""
    files = [tmp_path / name for name in ("tokens", "others")]
    for file in files:
        file.write_text("\nalice 0123456789abcdef reader\n")
        file.chmod(0o600)
    tables = {"serve": {"token_file": "tokens"}, "roles": {"readers": {}}}

    read = settings_of("--host", "0.0.0.0", tables=tables, folder=tmp_path)
    overridden = settings_of("--token-file", str(files[1]), tables=tables, folder=tmp_path)

    text = "no role is called 'reader' (did you mean 'readers'?): it grants nothing"
    for (settings, said), file in zip((read, overridden), files, strict=True):
        assert (settings.token_file, said) == (file, [f"note: {file}:2: {text}"])


@pytest.mark.skipif(os.name == "nt", reason="no such permissions there")
def test_a_token_file_that_others_can_read_is_remarked(tmp_path):
    file = tmp_path / "tokens"
    file.write_text("alice 0123456789abcdef\n")
    file.chmod(0o644)
    _, said = settings_of("--token-file", str(file))
    assert "chmod 600" in said[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("alice short\n", "16"),
        ("0123456789abcdef\n", "TENANT TOKEN"),
        ("a 0123456789abcdef b=c\n", "cannot be read"),
        ("a 0123456789abcdef\nb 0123456789abcdef\n", "already"),
        ("", "no token"),
        ("a 0123456789abcdeü\n", "ASCII"),
    ],
)
def test_a_token_file_that_cannot_be_used_is_told_without_the_token(tmp_path, text, said):
    file = tmp_path / "tokens"
    file.write_text(text)
    with pytest.raises(TokenFileError, match=said) as raised:
        settings_of("--token-file", str(file))
    assert "0123456789" not in str(raised.value)


@pytest.mark.parametrize("words", [("--port", "70000"), ("--port", "-1"), ("--allow-origin", "app.example"),
                                   ("--allow-origin", "https://a/b"), ("--trusted-proxy", "proxy.example"),
                                   ("--trusted-proxy", "10.0.0.7/24"), ("--token-file", "/nowhere")])  # fmt: skip
def test_what_cannot_be_used_is_a_sentence(words):
    with pytest.raises((ServeError, TokenFileError)) as raised:
        settings_of(*words)
    assert raised.value.exit_status == 2


def test_a_port_that_is_in_use_is_no_mistake_of_the_command_line(tmp_path):
    """It could be had, and was not: status 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ListenError, match="is in use") as raised:
        listen("127.0.0.1", taken.getsockname()[1])
    assert raised.value.exit_status == 1


def test_a_port_in_use_is_a_sentence(config_file, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--config", str(config_file), "--port", port]) == 1
    assert f"port {port} is in use" in capsys.readouterr().err


def test_a_configuration_that_cannot_be_used_is_told_and_nothing_listens(config_file, capsys):
    config_file.write_text("[llms")
    assert main(["serve", "--config", str(config_file), "--port", "0"]) == 2
    assert "TOML" in capsys.readouterr().err


@pytest.fixture
def program(tmp_path):
    """Run flexchat serve with some words; gives its process and its address."""
    started = []

    def start(*words):
        process = subprocess.Popen(
            [sys.executable, "-m", "flexchat", "serve", "--port", "0", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env={**os.environ, "FLEXCHAT_CONFIG": ""},
        )  # fmt: skip
        started.append(process)
        line = process.stdout.readline()
        found = re.search(r"FlexChat at (http://\S+)/ \(config: (.+)\)", line)
        assert found, line + process.stderr.read()
        return process, found[1], found[2]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.timed
def test_the_demo_serves_says_where_and_ends_cleanly_with_a_stream_open(program):
    """One line when it listens; Ctrl-C or SIGTERM ends it within seconds, whatever is open."""
    process, url, config = program()
    assert config == "none, the demo's"
    with urllib.request.urlopen(f"{url}/") as answer:
        assert b"FlexChat" in answer.read()
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as idle:
        idle.sendall(b"POST /chat/api HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n{")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.timed
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_ten_requests_on_one_connection_wait_for_no_acknowledgement(program, host):
    """Head and body are two small pieces: with Nagle's algorithm the second waits 40 ms for a delayed ACK."""
    _, url, _ = program("--host", host)
    address = urlsplit(url)
    took = []
    with contextlib.closing(http.client.HTTPConnection(address.hostname, address.port, timeout=10)) as connection:
        for _ in range(11):
            began = time.perf_counter()
            connection.request("GET", "/health")
            assert connection.getresponse().read()
            took.append(time.perf_counter() - began)
    assert statistics.median(took[1:]) < 0.03


SLOW = """
[llms.slow]
provider = "scripted"
repeat = true
replies = [{ tool_calls = [{ name = "wait" }] }]

[[responses]]
llm = "slow"
model = "s"
tools = { enabled = true }

[[tools.registry]]
name = "wait"
description = "Wait."
parameters = { type = "object" }
implementation = { type = "mock", mock_response = "waited", delay_ms = 20000 }
"""


@pytest.mark.slow
@pytest.mark.timed
def test_a_stream_that_is_open_ends_with_an_error_and_the_terminal_says_for_what_it_waits(program, config_file):
    """Ctrl-C: who reads the stream learns that its answer is not complete."""
    config_file.write_text(SLOW)
    process, url, _ = program("--config", str(config_file))
    asked = urllib.request.Request(
        f"{url}/chat/api", b'{"prompt": "Go.", "stream": true}', {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked) as answer:
        while b"event: tool_started" not in answer.readline():
            pass
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        name, data = answer.read().decode().rstrip().split("\n")[-2:]
    assert name == "event: error"
    problem = json.loads(data.removeprefix("data: "))
    assert (problem["status"], problem["type"]) == (503, "urn:flexchat:problem:server-stopped")
    _, err = process.communicate(timeout=20)
    assert time.monotonic() - began < 15  # the tool would take 20
    assert "stopping: 1 stream is open" in err


@pytest.mark.slow
def test_a_server_that_others_can_reach_says_so_and_how_they_sign_in(program, monkeypatch):
    """By which names, with which token; which it does not show."""
    monkeypatch.setenv("FLEXCHAT_TOKEN", "0123456789abcdef")
    process, url, _ = program("--host", "0.0.0.0", "--allow-host", "chat.example")
    port = url.rpartition(":")[2]
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert f"others on the network can reach it: http://{socket.gethostname()}:{port}/" in err
    assert f"http://chat.example:{port}/" in err
    assert "the token in FLEXCHAT_TOKEN" in err
    assert "Authorization: Bearer TOKEN" in err
    assert "0123456789abcdef" not in err


@pytest.mark.slow
def test_a_tokens_file_guards_the_real_server(program, tmp_path, config_file):
    file = tmp_path / "tokens"
    file.write_text("alice 0123456789abcdef\n")
    file.chmod(0o600)
    _, url, config = program("--config", str(config_file), "--token-file", str(file))
    assert config == str(config_file)
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(f"{url}/api/config")
    with raised.value as refused:
        assert refused.code == 401
    request = urllib.request.Request(f"{url}/api/config", headers={"Authorization": "Bearer 0123456789abcdef"})
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200
