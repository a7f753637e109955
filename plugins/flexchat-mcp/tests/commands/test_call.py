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


def test_a_failed_call_has_a_status(config, run, folder):
    config()
    folder.fault('{"content": [{"type": "text", "text": "no"}], "isError": true}')

    assert run("call", "fake", "add", "a=1")[:2] == (1, "no\n")


@pytest.mark.parametrize(
    ("words", "fault", "said"),
    [
        (["fake", "ad"], "", "fake has no tool 'ad' (did you mean 'add'?); it has: add, count"),
        (["fake", "add"], "die", "fake: it ended with exit code 7"),
        (["fake", "add"], "refuse", "fake refused the call: Unknown tool: add (-32602)"),
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
