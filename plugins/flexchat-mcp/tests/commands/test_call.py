"""flexchat mcp call."""

import json

import pytest


def test_a_tool_is_called_without_being_accepted(config, run, folder):
    config()
    status, out, _ = run("call", "fake", "add", "a=1", "b=2")

    assert (status, out) == (0, "3\n")
    assert list(folder.path.glob("*.lock")) == []


def test_the_whole_result_is_json(config, run, folder):
    config()

    assert json.loads(run("call", "fake", "add", '{"a": 4}', "--json")[1])["content"][0]["text"] == "4"


def test_a_value_that_an_sdk_has_wrapped_is_printed_once(config, run, folder):
    """As the model gets it: {"result": …} around what is no object, and the text that repeats it."""
    config()
    output = {"type": "object", "properties": {"result": {"type": "string"}}}
    folder.tools({"name": "who", "description": "Who.", "inputSchema": {"type": "object"}, "outputSchema": output})
    folder.fault('{"content": [{"type": "text", "text": "Ada"}], "structuredContent": {"result": "Ada"}}')

    assert run("call", "fake", "who")[:2] == (0, "Ada\n")


def test_a_failed_call_has_a_status(config, run, folder):
    config()
    folder.fault('{"content": [{"type": "text", "text": "no"}], "isError": true}')

    assert run("call", "fake", "add", "a=1")[:2] == (1, "no\n")


@pytest.mark.parametrize(
    ("words", "fault", "said"),
    [
        (["fake", "ad"], "", "fake has no tool 'ad' (did you mean 'add'?); it has: add, count"),
        (["fake", "add"], "die", "fake: it ended with exit code 7"),
        (["fake", "add"], "refuse", "fake refused: Unknown tool: add (-32602)"),
        (["gone", "add"], "", "no MCP server is called 'gone'"),
        (["fake", "add", "a"], "", "'a' is not key=value"),
    ],
)
def test_what_goes_wrong_is_said(config, run, folder, words, fault, said):
    config()
    if fault:
        folder.fault(fault)
    status, _, err = run("call", *words)

    assert status == 2
    assert said in err


PICTURE = {
    "content": [
        {"type": "text", "text": "a dot"},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
        {"type": "image", "data": "PGh0bWw+", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///../../x", "blob": "JVBERi0=", "mimeType": "application/pdf"}},
    ]
}


def test_media_are_told_of(config, run, folder):
    config()
    folder.fault(json.dumps(PICTURE))

    status, out, err = run("call", "fake", "add", "a=1")

    assert status == 0
    assert out.splitlines() == [
        "a dot",
        "[image/png, 8 bytes]",
        "[application/pdf, 5 bytes]",
        "[image/png, 6 bytes: left out, its data are not image/png]",
    ]
    assert "--save FOLDER writes what is not text" in err


def test_media_are_saved_under_names_of_ours(config, run, folder, tmp_path):
    """Never under a server's name for them, and never over a file."""
    config()
    there = tmp_path / "not" / "there"
    folder.fault(json.dumps(PICTURE))

    assert run("call", "fake", "add", "a=1", "--save", str(there))[0] == 0
    assert {path.name: path.read_bytes()[:4] for path in there.iterdir()} == {"1.png": b"\x89PNG", "2.pdf": b"%PDF"}

    folder.fault(json.dumps(PICTURE))
    status, out, _ = run("call", "fake", "add", "a=1", "--save", str(there))
    assert status == 0
    assert f"written to {there / '2.png'}" in out
    assert sorted(path.name for path in there.iterdir()) == ["1.png", "2.pdf", "2.png", "3.pdf"]


def test_a_folder_that_cannot_be_made_is_said_before_the_call(config, run, folder, tmp_path):
    config()
    (tmp_path / "file").touch()
    status, _, err = run("call", "fake", "add", "a=1", "--save", str(tmp_path / "file"))

    assert status == 2
    assert "this folder cannot be made: File exists" in err
    assert folder.pids() == []
