"""flexchat mcp add and import: what will run is shown, and a person says yes."""

import json
import tomllib

import pytest
from flexchat.config.document import parse_document

FILE = {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"API_KEY": "sk-very-secret-1"}}}}


def tables(path):
    return tomllib.loads(path.read_text())["tools"]["mcp"]


def test_a_command_is_added(config, run):
    path = config()
    before = path.read_text()
    status, out, err = run(
        "add", "time", "--yes", "--later", "--env", "LEVEL=3", "--", "uvx", "mcp-server-time", "--local"
    )

    assert status == 0
    assert path.read_text().startswith(before)
    assert tables(path)[1] == {"name": "time", "command": ["uvx", "mcp-server-time", "--local"], "env": {"LEVEL": "3"}}
    assert "time runs on this machine, with your permissions:\n  uvx mcp-server-time --local\n" in out
    assert "flexchat tools accept NAME accepts it" in err
    assert run("list")[0] == 0


def test_a_url_is_added(config, run, monkeypatch):
    monkeypatch.setenv("KEY", "x")
    path = config()
    run("add", "far", "https://x.example/sse", "--sse", "--header", "Authorization=Bearer ${KEY}", "--yes", "--later")

    assert tables(path)[1] == {
        "name": "far",
        "url": "https://x.example/sse",
        "transport": "sse",
        "headers": {"Authorization": "Bearer ${KEY}"},
    }


def test_the_variable_for_a_header_is_the_one_that_check_proposes(config, run):
    config()
    _, out, err = run("add", "far", "https://x.example/mcp", "--header", "X-Api-Key=sk-secret", "--yes", "--later")

    assert "X-Api-Key will stand in the config; ${FAR_X_API_KEY} takes it from the environment" in out
    assert "login" not in err
    _, _, err = run("add", "away", "https://x.example/mcp", "--oauth", "--yes", "--later")
    assert "flexchat mcp login NAME signs in" in err


@pytest.mark.parametrize("url", ["ftp://x.example/mcp", "https:/x.example/mcp"])
def test_a_url_of_another_kind_is_no_command(config, run, url):
    before = config().read_text()
    status, _, err = run("add", "far", url, "--yes", "--later")

    assert status == 2
    assert f"'{url}' is no URL that can be reached: it begins with http:// or https://" in err
    assert config().read_text() == before


def test_nothing_is_added_if_nobody_says_yes(config, run):
    path = config()
    before = path.read_text()
    status, _, err = run("add", "time", "uvx", "mcp-server-time")

    assert status == 2
    assert "a person must agree to what will run: run this at a terminal, or with --yes" in err
    assert path.read_text() == before


def test_a_file_is_imported_without_showing_its_secrets(config, run, folder):
    path = config()
    (folder.path / "claude.json").write_text(json.dumps(FILE))
    status, out, _ = run("import", "claude.json", "--yes", "--later")

    assert status == 0
    assert "sk-very-secret-1" not in out
    assert "API_KEY = ***" in out
    assert "API_KEY will stand in the config; ${API_KEY} takes it from the environment" in out
    assert tables(path)[1]["env"] == {"API_KEY": "sk-very-secret-1"}
    status, _, err = run("import", "claude.json", "--yes", "--later")
    assert "time is left out: flexchat.toml has a server of that name" in err
    assert len(tables(path)) == 2


@pytest.mark.parametrize(
    "server",
    [
        {"command": "npx", "args": ["server", "--api-key", "very-secret-1"]},
        {"command": "npx", "args": ["server", "--api-key=very-secret-1"]},
        {"command": "docker", "args": ["run", "-e", "GITHUB_TOKEN=very-secret-1", "image"]},
        {"command": "npx", "args": ["mcp-remote", "https://x.example", "--header", "Authorization: very-secret-1"]},
        {"command": "server", "args": ["postgres://ada:very-secret-1@db/x"]},
        {"url": "https://x.example/mcp?api_key=very-secret-1"},
        {"url": "https://ada:very-secret-1@x.example/mcp"},
    ],
    ids=json.dumps,
)
def test_secrets_of_arguments_and_urls_are_not_shown(config, run, folder, server):
    config()
    (folder.path / "claude.json").write_text(json.dumps({"mcpServers": {"x": server}}))

    status, out, err = run("import", "claude.json", "--yes", "--later")
    listed = run("list")

    assert status == 0
    assert "very-secret-1" not in out + err + listed[1] + listed[2]
    assert "***" in out
    assert "${NAME} takes it from the environment" in out


def test_a_json_config_keeps_its_order_and_indentation(config, run, folder):
    data = tomllib.loads(config().read_text())
    (folder.path / "flexchat.toml").unlink()
    path = folder.path / "flexchat.json"
    path.write_text(json.dumps(data, indent=4))
    assert run("add", "time", "--yes", "--later", "uvx", "mcp-server-time")[0] == 0

    data["tools"]["mcp"].append({"name": "time", "command": ["uvx", "mcp-server-time"]})
    assert path.read_text() == json.dumps(data, indent=4) + "\n"
    assert sorted(each.name for each in folder.path.iterdir() if each.suffix not in (".py", ".json")) == []


YAML = """\
# Who answers.
llms: {r: {provider: rehearsal}}   # no model
responses:
  - llm: r
    model: any
"""
TOOLS = """
tools:
  # Ours.
  mcp:
    - name: near   # on this machine
      command: [near]
"""


@pytest.mark.parametrize("tools", ["", TOOLS])
def test_a_yaml_config_keeps_its_comments(config, run, folder, tools):
    config().unlink()
    path = folder.path / "flexchat.yaml"
    path.write_text(YAML + tools)
    (folder.path / "claude.json").write_text(json.dumps(FILE))
    status, out, _ = run("import", "claude.json", "--yes", "--later")

    assert (status, "sk-very-secret-1" in out) == (0, False)
    assert path.read_text().startswith(YAML + tools)
    added = parse_document(path.read_text(), path).data["tools"]["mcp"]
    env = {"API_KEY": "sk-very-secret-1"}
    assert added[len(added) - 1] == {"name": "time", "command": ["uvx", "mcp-server-time"], "env": env}
    assert len(added) == (2 if tools else 1)


def test_what_stands_twice_in_yaml_is_left_alone(config, run, folder):
    """Added to an alias' list, a server would be in both places."""
    config().unlink()
    path = folder.path / "flexchat.yaml"
    text = YAML + "_both: &both [{name: near, command: [near]}]\ntools: {mcp: *both}\n"
    path.write_text(text)
    status, _, err = run("add", "time", "--yes", "uvx")

    assert (status, path.read_text()) == (2, text)
    assert "flexchat.yaml cannot be changed in place" in err


def test_a_config_written_in_another_way_is_left_alone(config, run, folder):
    path = folder.path / "flexchat.toml"
    text = config().read_text().partition("[[tools")[0] + '[tools]\nmcp = [{ name = "a", command = "b" }]\n'
    path.write_text(text)
    status, _, err = run("add", "time", "--yes", "uvx")

    assert status == 2
    assert err
    assert path.read_text() == text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["add", "a b", "x"], "'a b' is not 1 to 64 letters"),
        (["add", "a", "https://x.example", "y"], "a URL has neither arguments nor variables"),
        (["add", "a", "x", "--oauth"], "--header, --sse and --oauth are for a URL"),
        (["add", "a", "x", "--env", "NAME"], "--env NAME: write NAME=VALUE"),
        (["import", "nowhere.json"], "nowhere.json cannot be read: "),
        (["import", "flexchat.toml"], "flexchat.toml: it is not JSON"),
        (["import", "good.json", "--only", "tim"], "good.json has no server 'tim'; it has: time"),
    ],
)
def test_what_is_wrong_is_said(config, run, folder, words, said):
    config()
    (folder.path / "good.json").write_text(json.dumps(FILE))
    status, _, err = run(*words)

    assert status == 2
    assert said in err


def test_what_nobody_sees_is_shown_before_it_runs(config, run, folder):
    """As escapes, on the line it belongs to: in the command, the environment, a key, the name of what is left out."""
    config()
    servers = {
        "time": {
            "command": "uvx",
            "args": ["mcp-server-time", "\u202eevil\u200b", "two\nfake: yes", "\U000e0041"],
            "env": {"LE\u2066VEL": "a\rb"},
            "o\u202edd": 1,
        },
        "b\u202ead\x1b[2K": {},
    }
    (folder.path / "claude.json").write_text(json.dumps({"mcpServers": servers}))
    status, out, err = run("import", "claude.json", "--yes", "--later")

    assert status == 0
    assert r"  uvx mcp-server-time \u202eevil\u200b two\nfake: yes \U000e0041" in out.splitlines()
    assert r"  LE\u2066VEL = a\rb" in out.splitlines()
    assert r"not taken over: o\u202edd" in out
    assert r"b\u202ead\x1b[2K is left out" in err
    assert all(each.isprintable() for each in (out + err).replace("\n", ""))
