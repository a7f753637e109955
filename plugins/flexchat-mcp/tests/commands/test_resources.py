"""flexchat mcp resources: what a server has to read."""

import json

import pytest

from ..conftest import MODERN_FIRST


@pytest.fixture(params=MODERN_FIRST)
def readable(request, config, folder):
    config({"name": "fake", "command": folder.command(request.param, "readable")})


@pytest.mark.usefixtures("readable")
def test_all_pages_and_templates_are_listed(run):
    status, out, _ = run("resources", "fake")

    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == ["note:///0", "note:///1", "note:///{n}"]
    data = json.loads(run("resources", "fake", "--json")[1])
    assert (len(data["resources"]), len(data["resourceTemplates"])) == (2, 1)


@pytest.mark.usefixtures("readable")
def test_a_resource_is_printed_or_saved(run, tmp_path):
    assert run("resources", "fake", "note:///7")[:2] == (0, "a note\n\ufffd[31mred\n")

    status, out, err = run("resources", "fake", "note:///picture")
    assert (status, out) == (0, "[resource note:///picture image/png, 5 bytes: not shown]\n")
    assert "--save FILE" in err
    assert run("resources", "fake", "note:///picture", "--save", str(tmp_path / "x.png"))[0] == 0
    assert (tmp_path / "x.png").read_bytes() == b"hello"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fake", "file:///../etc/passwd"], "fake refused: Resource not found: file:///../etc/passwd"),
        (["fake", "--save", "x"], "--save needs the URI"),
        (["fake", "note:///1", "--save", "/no/such/folder/x"], "cannot be written: No such file or directory"),
        (["fak"], "no MCP server is called 'fak' (did you mean 'fake'?)"),
    ],
)
@pytest.mark.usefixtures("readable")
def test_what_goes_wrong_is_said(run, words, said):
    status, out, err = run("resources", *words)

    assert (status, out) == (2, "")
    assert said in err


def test_a_server_without_resources_has_none(config, run):
    config()

    assert run("resources", "fake") == (0, "", "fake has no resources\n")
