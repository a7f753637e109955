"""flexchat tools record: a mock, from one call of the real tool."""

import json
import tomllib

import pytest
from flexchat import FlexChat
from flexchat_cli.main import main

CONFIG = """
[llms.r]
provider = "rehearsal"

[[responses]]
llm = "r"
model = "rehearsal"

[[tools.registry]]
name = "weather"
description = "Get the weather."
effect = "read"
parameters = { type = "object", properties = { city = { type = "string" } }, required = ["city"] }
implementation = { type = "python", function = "recorded_tools:weather" }

[[tools.registry]]
name = "pay"
description = "Pay."
parameters = { type = "object" }
implementation = { type = "python", function = "recorded_tools:pay" }
"""
RULE = {"llm": "r", "model": "rehearsal"}
TOOLS = """
def weather(city: str) -> dict:
    if city == "Nowhere":
        raise ValueError("no such city")
    return {"city": city, "days": [1, 2.5], "api_key": "k-12345", "rain": None if city == "Rome" else False}

def pay() -> str:
    with open("paid", "a") as file:
        file.write("x")
    return "paid"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "flexchat.toml").write_text(CONFIG)
    (tmp_path / "recorded_tools.py").write_text(TOOLS)
    return tmp_path


def record(capsys, *words):
    status = main(["tools", "record", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_the_printed_table_answers_as_the_tool_did(capsys):
    status, out, err = record(capsys, "weather", "city=Oslo")

    assert (status, "masked, since it looks like a secret: $.api_key" in err) == (0, True)
    tables = tomllib.loads(out)
    chat = FlexChat.from_config({"llms": {"r": {"provider": "rehearsal"}}, "responses": [RULE], **tables})
    tool = chat.tools.get_registry().get("weather")
    assert (tool.effect, tool.implementation.type) == ("read", "mock")
    assert tool.implementation.settings.mock_response == {
        "city": "Oslo",
        "days": [1, 2.5],
        "api_key": "***",
        "rain": False,
    }
    assert tool.implementation.settings.output_schema["properties"]["days"]["items"] == {"type": "number"}


def test_it_can_be_written_to_a_file(capsys, folder):
    assert record(capsys, "weather", "city=Oslo", "--out", "mock.toml")[:2] == (0, "")
    assert "[[tools.registry]]" in (folder / "mock.toml").read_text()

    status, _, err = record(capsys, "weather", "city=Oslo", "--out", "mock.toml")
    assert (status, "exists already" in err) == (2, True)
    assert record(capsys, "weather", "city=Oslo", "--out", "mock.yaml")[0] == 2


def test_null_is_written_as_json(capsys, folder):
    status, out, err = record(capsys, "weather", "city=Rome")
    assert (status, json.loads(out)["tools"]["registry"][0]["name"]) == (0, "weather")
    assert "TOML cannot express" in err

    status, _, err = record(capsys, "weather", "city=Rome", "--out", "mock.toml")
    assert (status, "name a .json file" in err, (folder / "mock.toml").exists()) == (2, True, False)
    assert record(capsys, "weather", "city=Rome", "--out", "mock.json")[0] == 0
    assert json.loads((folder / "mock.json").read_text())["tools"]["registry"]


def test_a_tool_that_changes_something_is_not_called_unasked(capsys, folder):
    status, out, err = record(capsys, "pay")
    assert (status, out, "--yes calls it" in err, (folder / "paid").exists()) == (2, "", True, False)

    assert record(capsys, "pay", "--yes")[0] == 0
    assert (folder / "paid").read_text() == "x"


def test_what_fails_is_not_recorded(capsys):
    assert record(capsys, "weather", "city=Nowhere")[:2] == (1, "")
    assert record(capsys, "wether")[0] == 2
    assert record(capsys, "weather", "town=Oslo")[0] == 2


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "object", "required": ["x"]}, "mock_response does not fit output_schema"),
        ({"type": "objekt"}, "output_schema: "),
    ],
)
def test_a_mock_keeps_what_the_tool_promises(capsys, folder, schema, words):
    entry = {"name": "t", "description": "T.", "parameters": {"type": "object"}}
    entry["implementation"] = {"type": "mock", "mock_response": {"y": 1}, "output_schema": schema}
    (folder / "flexchat.toml").unlink()
    tables = {"llms": {"r": {"provider": "rehearsal"}}, "responses": [RULE], "tools": {"registry": [entry]}}
    (folder / "flexchat.json").write_text(json.dumps(tables))

    assert main(["check"]) == 2
    assert words in capsys.readouterr().out
