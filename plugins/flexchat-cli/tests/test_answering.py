"""ask and chat with -m, -s, -T, -o and --schema: who answers, and how."""

import contextlib
import json
import sys

import pytest
from flexchat_cli.answering import read_options, read_schema, schema_of_many
from flexchat_cli.context import UsageError
from flexchat_testing.scripted import ScriptedProvider
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

CONFIG = """
[llms.bot]
provider = "scripted"
repeat = true
replies = [{ text = "bot's" }]

[llms.other]
provider = "scripted"
repeat = true
replies = [{ text = "other's" }]
default_model = "usual"

[[responses]]
llm = "bot"
model = "m"
prompt = "Be long."
temperature = 1
tools = { enabled = true, allowed_tools = ["calculator"] }

[[tools.registry]]
name = "calculator"
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "flexchat.toml").write_text(CONFIG)


@pytest.fixture
def asked(monkeypatch):
    """What each model was asked with: the model, the messages, the options."""
    seen, generate = [], ScriptedProvider.generate_chat

    def watched(self, messages, model, options):
        seen.append((model, messages, options))
        return generate(self, messages, model, options)

    monkeypatch.setattr(ScriptedProvider, "generate_chat", watched)
    return seen


def test_a_model_needs_no_configuration(run):
    ran = run("ask", "--no-stream", "-m", "rehearsal/any", "-T", "calculator", "What is 17% of 230?")

    assert (ran.status, "39.1" in ran.out) == (0, True)
    assert "config" not in ran.err


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    ("words", "said", "model"),
    [
        ([], "bot's", "m"),
        (["-m", "other"], "other's", "usual"),
        (["-m", "other/big"], "other's", "big"),
        (["-m", "bot/org/name"], "bot's", "org/name"),
    ],
)
def test_an_llm_of_the_configuration_answers_under_its_rules(run, asked, words, said, model):
    ran = run("ask", *words, "hello")

    assert (ran.status, ran.out) == (0, f"{said}\n")
    assert [(name, messages[0].content) for name, messages, _ in asked] == [(model, "Be long.")]


@pytest.mark.usefixtures("config")
def test_system_prompt_tools_and_options_take_the_place_of_the_rules(run, asked):
    ran = run("ask", "-s", "Be brief.", "-T", "text_length", "-o", "temperature=0", "-o", "stop=END", "hello")

    assert ran.status == 0, ran.err
    ((_, messages, options),) = asked
    assert messages[0].content == "Be brief."
    assert (options.temperature, options.stop) == (0, ("END",))
    assert "text_length" in json.dumps(options.tools)
    assert "calculator" not in json.dumps(options.tools)


@pytest.mark.usefixtures("config")
def test_a_pipe_goes_through_with_a_system_prompt_alone(run, asked):
    """Cat x | flexchat ask -s "Summarise" > y."""
    ran = run("ask", "-s", "Summarise", stdin=b"a long text\n")

    assert (ran.status, ran.out, ran.err) == (0, "bot's\n", "")
    assert [message.content for message in asked[0][1]] == ["Summarise", "a long text"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["-s", "Summarise"], "answered 5"),
        (["-T", "calculator"], "answered 5"),
        (["-T", "generate_uuid"], "generate_uuid"),
    ],
)
def test_the_rehearsal_model_takes_them_too(run, words, answer):
    ran = run("ask", "--demo", *words, "What is 2 + 3?")

    assert ran.status == 0
    assert answer in ran.out


@pytest.mark.usefixtures("config")
def test_a_kept_conversation_goes_on_with_another_model(run, asked):
    run("ask", "--keep", "one")

    assert run("ask", "-c", "-m", "other", "two").out == "other's\n"
    assert [message.content for message in asked[-1][1]] == ["Be long.", "one", "bot's", "two"]


@pytest.mark.usefixtures("config")
def test_a_schema_is_the_form_of_the_answer(run, asked):
    run("ask", "--schema", "name, age int: in years", "hello")

    form = asked[0][2].response_format
    assert form.schema["properties"] == {
        "name": {"type": "string"},
        "age": {"type": "integer", "description": "in years"},
    }
    assert [*form.schema["required"]] == ["name", "age"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-m", "rehearsal"], "names a provider and no model"),
        (["-m", "opnai/gpt"], "did you mean 'openai'?"),
        (["-m", "/"], "PROVIDER/MODEL"),
        (["-m", ""], "PROVIDER/MODEL"),
        (["-m", "openai/gpt-5.2", "-o", "bas_url=x"], "did you mean 'base_url'?"),
        (["-m", "rehearsal/x", "-T", "calculatr"], "calculatr"),
        (["-m", "rehearsal/x", "--demo"], "use only one of them"),
        (["-T", "calculator"], "-m PROVIDER/MODEL needs none"),
        (["-s", "brief"], "-m PROVIDER/MODEL needs none"),
        (["-T", "calculatr", "--demo"], "did you mean 'calculator'?"),
        (["-m", "rehearsal/x", "-o", "temprature=0"], "-o temprature: no such option (did you mean 'temperature'?)"),
        (
            ["-m", "rehearsal/x", "-T", "trains.py"],
            "-T trains.py: --functions trains.py offers the functions of a file; -T trains:FUNCTION names one",
        ),
        (["-m", "rehearsal/x", "-o", "tempera!ture"], "KEY=VALUE is expected"),
        (["-m", "rehearsal/x", "-o", "seed=1", "-o", "seed=2"], "given twice"),
        (["-m", "rehearsal/x", "-o", "temperature=9"], "temperature"),
        (["-m", "rehearsal/x", "--schema", ""], "--schema is empty"),
        (["-m", "rehearsal/x", "--schema", "{"], "--schema is not JSON"),
        (["-m", "rehearsal/x", "--schema", "no.json"], "--schema no.json: "),
    ],
)
def test_what_cannot_be_is_one_sentence(run, words, said):
    ran = run("ask", *words, "hello")

    assert ran.status == 2, ran
    assert said in ran.err
    assert ran.out == ""
    assert ran.err.count("\n") == 1


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "temprature=0"], "did you mean 'temperature'?"),
        (["-T", "calculatr"], "-T calculatr: no such tool (did you mean 'calculator'?)"),
        (["-m", "othr/x"], "no provider is called 'othr'"),
    ],
)
def test_so_it_is_with_a_configuration(run, asked, words, said):
    ran = run("ask", *words, "hello")

    assert (ran.status, ran.out, asked) == (2, "", [])
    assert said in ran.err


@pytest.mark.usefixtures("config")
def test_a_chat_changes_model_and_system_prompt_on_the_way(run, asked):
    lines = ["/model", "one", "/model other", "two", "/system Be brief.", "three", "/model nobody/x", "four", "/model"]

    ran = run("chat", stdin="\n".join(lines) + "\n")

    assert ran.status == 0, ran.err
    assert ran.out == "bot's\nother's\nother's\nother's\n"
    assert [messages[0].content for _, messages, _ in asked] == ["Be long.", "Be long.", "Be brief.", "Be brief."]
    assert "one" in [message.content for message in asked[-1][1]]
    assert "no model has answered yet" in ran.err
    assert "no provider is called 'nobody'" in ran.err
    assert "other/usual" in ran.err


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("name", {"name": {"type": "string"}}),
        (
            "a int, b float, c bool, d str",
            {"a": {"type": "integer"}, "b": {"type": "number"}, "c": {"type": "boolean"}, "d": {"type": "string"}},
        ),
        ("a: one, b", {"a": {"type": "string", "description": "one"}, "b": {"type": "string"}}),
        ("a: one, two\nb int", {"a": {"type": "string", "description": "one, two"}, "b": {"type": "integer"}}),
        (" a ,, b ,", {"a": {"type": "string"}, "b": {"type": "string"}}),
    ],
)
def test_a_schema_in_words(text, properties):
    assert read_schema(text) == {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def test_a_schema_is_read_from_json_and_from_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "form").write_text('{"type": "object"}')

    assert read_schema(' {"type": "object"}') == read_schema("form") == {"type": "object"}


@pytest.mark.parametrize("text", ["a itn", "1a", "a, a", "a int int", "a b", " , ", "{", "[].json"])
def test_a_schema_that_is_none_is_refused(text):
    if text == " , ":
        assert read_schema(text)["properties"] == {}
        return
    with pytest.raises(UsageError, match="--schema"):
        read_schema(text)


@given(st.text(max_size=40))
def test_any_text_is_a_schema_or_a_sentence(text):
    with contextlib.suppress(UsageError):
        assert isinstance(read_schema(text), dict)


def test_a_key_that_is_missing_is_named(run):
    ran = run("ask", "-m", "openai/gpt-5.2", "hello")

    assert (ran.status, ran.out) == (1, "")
    assert "OPENAI_API_KEY" in ran.err


def test_options_are_json_or_text():
    assert read_options(["a=1", "b=x", 'c=["x"]', "d=", "e=true"]) == {
        "a": 1,
        "b": "x",
        "c": ["x"],
        "d": "",
        "e": True,
    }


@pytest.fixture
def of_ones_own(tmp_path, monkeypatch):
    """A module beside the configuration."""
    (tmp_path / "trains.py").write_text(
        "def next_train(town: str) -> str:\n    'Say when the next train leaves.'\n    return 'at 12:05'\n\n"
        "number = 1\n\ndef undescribed(a):\n    return a\n"
    )
    (tmp_path / "broken.py").write_text("1 / 0\n")
    yield
    sys.modules.pop("trains", None)


@pytest.mark.usefixtures("of_ones_own")
def test_a_python_function_is_a_tool_without_a_configuration(run):
    ran = run("ask", "-m", "rehearsal/any", "-T", "trains:next_train", "When does the next train leave, town Rome?")

    assert (ran.status, "at 12:05" in ran.out) == (0, True)


@pytest.mark.usefixtures("config", "of_ones_own")
def test_a_python_function_is_a_tool_beside_those_of_the_configuration(run, asked):
    ran = run("ask", "-T", "trains:next_train", "-T", "calculator", "hello")

    assert ran.status == 0
    assert sorted(tool["function"]["name"] for tool in asked[0][2].tools) == ["calculator", "next_train"]


@pytest.mark.usefixtures("of_ones_own")
@pytest.mark.parametrize("model", [["-m", "rehearsal/any"], []])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("trians:next_train", "-T trians:next_train: it cannot be imported: ModuleNotFoundError"),
        ("trains:next", "-T trains:next: trains has no 'next' (did you mean 'next_train'?)"),
        ("broken:any", "-T broken:any: it cannot be imported: ZeroDivisionError"),
        ("trains:number", "-T trains:number: it is not a function"),
        ("trains:undescribed", "-T: "),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_said(run, tmp_path, model, name, said):
    (tmp_path / "flexchat.toml").write_text(CONFIG)
    ran = run("ask", *model, "-T", name, "hello")

    assert ran.status == 2
    assert said in ran.err


def test_the_environment_names_a_model_where_nothing_else_does(run, asked, monkeypatch, tmp_path):
    monkeypatch.setenv("FLEXCHAT_MODEL", "rehearsal/any")
    alone = run("ask", "hello")
    (tmp_path / "flexchat.toml").write_text(CONFIG)
    configured = run("ask", "hello")

    assert (alone.status, "rehearsal" in alone.out) == (0, True)
    assert configured.out == "bot's\n"
    monkeypatch.setenv("FLEXCHAT_MODEL", "rehersal/any")
    (tmp_path / "flexchat.toml").unlink()
    assert "did you mean 'rehearsal'?" in run("ask", "hello").err


@pytest.mark.usefixtures("config")
def test_several_of_a_form(run, asked):
    run("ask", "--schema-multi", "name, age int", "hello")
    schema = asked[0][2].response_format.schema

    assert schema["properties"]["items"]["items"]["required"] == ["name", "age"]
    assert run("ask", "--schema", "a", "--schema-multi", "a", "x").status == 2


def test_references_of_a_form_still_point_somewhere():
    one = {"$defs": {"a": {"type": "string"}}, "type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}}

    many = schema_of_many(one)

    assert Draft202012Validator(many).is_valid({"items": [{"a": "x"}]})
    assert not Draft202012Validator(many).is_valid({"items": [{"a": 1}]})
