"""promptfoo's tests as cases."""

import builtins
import json
import textwrap

import pytest
from flexchat import ConfigError
from flexchat_validation.cases import ArgumentCheck, ExpectedCall
from flexchat_validation.importers.promptfoo import read_promptfoo

yaml = pytest.importorskip("yaml")

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
TIME = {"type": "function", "function": {"name": "get_time", "description": "Time", "parameters": {}}}


def read(folder, tests, *, tools=(WEATHER,), prompts=("{{q}}",), **more):
    path = folder / "promptfooconfig.yaml"
    provider = {"id": "openai:gpt-5", "config": {"tools": list(tools)}}
    data = {"prompts": list(prompts), "providers": [provider], "tests": tests, **more}
    path.write_text(yaml.safe_dump(data))
    return read_promptfoo(path)


def asserting(*assertions, **more):
    return {"vars": {"q": "Weather in Paris?"}, "assert": list(assertions), **more}


F1 = {"type": "tool-call-f1", "value": ["get_weather"]}


def test_a_test_becomes_a_case_with_the_providers_tools(tmp_path):
    (case,) = read(tmp_path, [asserting(F1, description="d", metadata={"category": "w"})]).cases
    assert (case.name, case.message, case.calls) == (
        "d",
        "Weather in Paris?",
        (ExpectedCall(tool="get_weather"),),
    )
    assert [tool.name for tool in case.own_tools] == ["get_weather"]
    assert (case.tools, case.tags, case.extra_calls) == ((), ("promptfoo", "w"), False)


def test_a_valid_call_is_held_to_the_tools_schema(tmp_path):
    (case,) = read(tmp_path, [asserting({"type": "is-valid-openai-tools-call"})]).cases
    assert case.calls[0].check == {"city": ArgumentCheck(schema={"type": "string"})}
    found = read(tmp_path, [asserting({"type": "is-valid-openai-tools-call"})], tools=[WEATHER, TIME])
    assert found.cases == ()
    assert "does not name the tool)" in found.notes[0]


def test_trajectories_say_tools_arguments_and_order(tmp_path):
    used = {"type": "trajectory:tool-used", "value": {"name": "get_time", "min": 2}}
    arguments = {"type": "trajectory:tool-args-match", "value": {"name": "get_weather", "args": {"city": "{{c}}"}}}
    sequence = {"type": "trajectory:tool-sequence", "value": {"steps": ["get_time", "get_weather"]}}
    test = asserting(used, arguments)
    test["vars"]["c"] = "Paris"
    (case,) = read(tmp_path, [test], tools=[WEATHER, TIME]).cases
    assert [call.tool for call in case.calls] == ["get_time", "get_time", "get_weather"]
    assert case.calls[2].arguments == {"city": "Paris"}
    assert case.extra_calls
    (case,) = read(tmp_path, [asserting(arguments, sequence)], tools=[WEATHER, TIME]).cases
    assert ([call.tool for call in case.calls], case.order) == (["get_time", "get_weather"], "given")
    assert case.calls[1].arguments


@pytest.mark.parametrize(
    ("assertion", "contains", "regex"),
    [
        ({"type": "icontains", "value": "sun"}, ("sun",), None),
        ({"type": "contains-all", "value": ["a", "b"]}, ("a", "b"), None),
        ({"type": "icontains-any", "value": ["a", "b.c"]}, (), r"(?i:a|b\.c)"),
        ({"type": "regex", "value": r"\d+"}, (), r"\d+"),
        ({"type": "equals", "value": "a.b"}, (), r"^a\.b$"),
        ({"type": "starts-with", "value": "It"}, (), "^It"),
    ],
)
def test_what_is_asked_of_the_answer_is_kept(tmp_path, assertion, contains, regex):
    (case,) = read(tmp_path, [asserting(F1, assertion)]).cases
    assert (case.answer.contains, case.answer.regex) == (contains, regex)


@pytest.mark.parametrize(
    ("assertion", "said"),
    [
        ({"type": "javascript", "value": "output.length > 1"}, "javascript is left out: it is code, and is not run"),
        ({"type": "llm-rubric", "value": "good"}, "llm-rubric is left out: another model judges it"),
        ({"type": "latency", "threshold": 5}, "latency is left out: cases have no equivalent"),
        ({"type": "not-trajectory:tool-used", "value": "x"}, "not-trajectory:tool-used is left out"),
        ({"type": "tool-call-f1", "value": ["get_weather"], "threshold": 0.5}, "its threshold is taken as 1"),
        ({"type": "contains", "value": "x"}, "upper and lower case count alike"),
        ({"type": "trajectory:tool-args-match", "value": "x"}, "trajectory:tool-args-match is left out"),
        ({"type": "equals", "value": {"a": 1}}, "only texts can be compared"),
        ({"type": "trajectory:tool-used", "value": {"name": "x", "min": 10**9}}, "1 to 64 times"),
        ({"value": 1}, "an assertion without a type is left out"),
    ],
)
def test_what_cannot_be_taken_over_is_a_note_of_its_test(tmp_path, assertion, said):
    found = read(tmp_path, [asserting(F1, assertion, description="d")])
    assert len(found.cases) == 1
    assert found.notes[0].startswith("d: ")
    assert said in found.notes[0]


def test_a_test_that_says_nothing_of_calls_is_left_out_with_the_reason(tmp_path):
    found = read(tmp_path, [asserting({"type": "javascript", "value": "1"}), "x", {"vars": {}}])
    assert found.cases == ()
    assert found.notes[0].startswith("test 1: left out: it does not name the tools to call (javascript")
    assert len(found.notes) == 3


def test_prompts_and_lists_of_variables_are_multiplied(tmp_path):
    chat = json.dumps([{"role": "system", "content": "Be {{how}}"}, {"role": "user", "content": "{{q}}"}])
    test = {"vars": {"q": ["a", "b"], "how": "brief"}, "assert": [F1], "description": "d"}
    found = read(tmp_path, [test], prompts=["Say {{q}}", chat, "{% if x %}{{q}}{% endif %}"])
    assert [(c.name, c.prompt, c.message) for c in found.cases] == [
        ("d, prompt 1", None, "Say a"),
        ("d, prompt 1 (2)", None, "Say b"),
        ("d, prompt 2", "Be brief", "a"),
        ("d, prompt 2 (2)", "Be brief", "b"),
    ]
    assert found.notes == ("d: left out: its template does more than fill in variables: {{name}}",)


def test_the_default_test_belongs_to_every_test(tmp_path):
    default = {"assert": [F1], "vars": {"q": "m"}}
    (case,) = read(tmp_path, [{}], defaultTest=default).cases
    assert (case.message, len(case.calls)) == ("m", 1)


def test_tools_in_files_are_read_below_the_folder_only(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for place in (tmp_path, folder):
        (place / "tools.json").write_text(json.dumps([WEATHER]))
    test = asserting({"type": "is-valid-openai-tools-call"})
    data = {"prompts": ["{{q}}"], "tests": [test], "providers": [{"id": "x", "config": {"tools": "file://tools.json"}}]}
    path = folder / "promptfoo.json"
    path.write_text(json.dumps(data))
    assert len(read_promptfoo(path).cases) == 1
    path.write_text(json.dumps(data).replace("file://", "file://../"))
    assert any("below the tests' folder" in note for note in read_promptfoo(path).notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tests: [", "this is not YAML"),
        ("a: !!python/object/apply:os.system ['true']", "this is not YAML"),
        ("prompts: [x]", "expected in a list 'tests'"),
        ("a: &a [*a]", "aliases"),
        ("a: 2026-01-01", "dates and times"),
        ("tests: [{vars: {1: 2}}]", "keys are text"),
        ("tests: " + "[" * 500 + "]" * 500, "deep"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_a_sentence(tmp_path, text, said):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_promptfoo(path)


def test_aliases_of_aliases_are_refused_before_they_fill_the_memory(tmp_path):
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    path = tmp_path / "x.yaml"
    path.write_text("\n".join(lines) + "\ntests: []\n")
    with pytest.raises(ConfigError, match="expand to too much"):
        read_promptfoo(path)


def test_without_the_reader_of_yaml_the_extra_is_named(tmp_path, monkeypatch):
    original = builtins.__import__

    def without(name, *rest, **more):
        if name == "yaml":
            raise ImportError(name)
        return original(name, *rest, **more)

    path = tmp_path / "x.yaml"
    path.write_text(textwrap.dedent("tests: []"))
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"flexchat-validation\[yaml\]"):
        read_promptfoo(path)
