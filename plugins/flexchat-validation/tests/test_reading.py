"""Cases of configurations and files, and everything that is wrong with them."""

import json

import pytest
from flexchat import ConfigError
from flexchat.config.model import Config, LLMEntry, ToolEntry, ToolsTable
from flexchat_validation.cases import (
    ArgumentCheck,
    Case,
    CaseTool,
    ExpectedCall,
    ExpectedTurn,
    ToolMock,
    ValidationTable,
)
from flexchat_validation.reading import aspects_of, check_cases, expects, read_cases, usable_cases, wrong_models

TOOL = ToolEntry(
    name="get_weather",
    description="d",
    parameters={"type": "object", "properties": {"location": {"type": "string"}, "days": {"type": "integer"}}},
)
PARIS = ExpectedCall(tool="get_weather", arguments={"location": "Paris"})


def config(*cases, files=()):
    return Config(tools=ToolsTable(registry=(TOOL,)), tables={"validation": ValidationTable(cases=cases, files=files)})


def case(*calls, **more):
    return Case(**{"name": "c", "message": "m", "calls": calls or None, **more})


def test_cases_come_from_the_config_from_files_it_names_and_from_further_ones(tmp_path):
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "a.toml").write_text('[[cases]]\nname = "a"\nmessage = "m"\nno_call = true\n')
    row = {"name": "b", "message": "m", "calls": [{"tool": "get_weather"}], "tags": ["x"]}
    (tmp_path / "cases" / "b.json").write_text(json.dumps({"cases": [row]}))
    (tmp_path / "more.jsonl").write_text(json.dumps({**row, "name": "d"}) + "\n\n" + json.dumps({**row, "name": "e"}))
    found = read_cases(config(case(PARIS), files=("cases/*",)), tmp_path, files=[tmp_path / "more.jsonl"])
    assert [c.name for c in found.cases] == ["c", "a", "b", "d", "e"]
    assert [c.name for c in found.chosen(tags=["x"])] == ["b", "d", "e"]
    assert [c.name for c in found.chosen(["a"])] == ["a"]
    with pytest.raises(ConfigError, match="no case has the tag 'xx'"):
        found.chosen(tags=["xx"])


def test_all_problems_are_said_at_once_with_file_and_line(tmp_path):
    file = tmp_path / "cases.toml"
    file.write_text(
        '[[cases]]\nname = "a"\nmessage = "m"\n\n'
        '[[cases]]\nname = "b"\nmesage = "m"\nno_call = true\n\n'
        '[[cases]]\nname = "a"\nmessage = "m"\ncalls = [{ tool = "get_wether" }]\n'
    )
    with pytest.raises(ConfigError) as error:
        read_cases(config(), tmp_path, files=[file, tmp_path / "none.toml"])
    found = [(p.line, p.text) for p in error.value.problems if p.source == str(file)]
    assert (1, "a case that expects nothing proves nothing: add calls or no_call = true") in found
    assert (7, "unknown key 'mesage' (did you mean 'message'?)") in found
    assert any(line == 13 and "did you mean 'get_weather'" in text for line, text in found)
    assert any(line == 11 and f"already: {file}:2" in text for line, text in found)
    assert any("there is no such file" in p.text for p in error.value.problems)


def test_a_pattern_of_files_that_fits_none_is_a_problem(tmp_path):
    with pytest.raises(ConfigError, match=r"validation.files\[0\]: there is no such file"):
        read_cases(config(files=("cases/*.toml",)), tmp_path)


def test_what_a_pattern_finds_beside_files_is_told_unless_it_is_a_folder_among_them(tmp_path):
    (tmp_path / "cases" / "old").mkdir(parents=True)
    (tmp_path / "cases" / "a.toml").write_text("cases = []")
    assert read_cases(config(files=("cases/*",)), tmp_path).cases == ()
    (tmp_path / "cases" / "b.toml").symlink_to("gone.toml")
    (tmp_path / "cases" / "c.toml").mkdir()
    with pytest.raises(ConfigError) as error:
        read_cases(config(files=("cases/*", "cases/")), tmp_path)
    assert [str(p) for p in error.value.problems] == [
        "validation.files[0]: b.toml is a link to nothing",
        "validation.files[0]: c.toml is a folder: c.toml/* are its files",
        "validation.files[1]: cases is a folder: cases/* are its files",
    ]


def test_a_file_that_is_a_list_is_told_what_a_file_of_cases_is(tmp_path):
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ConfigError, match=r'a file of cases is one table: \{"cases": \[…\]\}, not a list'):
        read_cases(config(), tmp_path, files=[tmp_path / "x.json"])


def test_what_keeps_a_case_from_being_read_hides_nothing_else_that_is_wrong_with_it(tmp_path):
    call = '{ tool = "get_weather", arguments = { town = 1 }, check = { days = { near = "x", regex = "(" } } }'
    (tmp_path / "x.toml").write_text(f'[[cases]]\nname = "a"\nmessage = "m"\ncalls = [{call}]\n')
    with pytest.raises(ConfigError) as error:
        read_cases(config(), tmp_path, files=[tmp_path / "x.toml"])
    paths = [p.path.removeprefix("cases[0].calls[0].") for p in error.value.problems]
    assert paths == ["check.days.near", "arguments.town", "check.days.regex"]


@pytest.mark.parametrize("row", ["calls = [5]", "calls = 5", "", "message = 5\ncalls = [{ tool = 1 }]", "tols = []"])
def test_of_a_case_of_which_nothing_is_left_only_that_is_told(tmp_path, row):
    (tmp_path / "x.toml").write_text(f'[[cases]]\nname = "a"\n{row}\n')
    with pytest.raises(ConfigError) as error:
        read_cases(config(), tmp_path, files=[tmp_path / "x.toml"])
    assert error.value.problems


def test_cases_that_can_be_used_are_kept_beside_those_that_cannot(tmp_path):
    """Of two with one name the first."""
    good, bad = case(PARIS), case(PARIS, name="bad", tools=("x",))
    again = case(name="c", no_call=True)
    found, problems = usable_cases(config(good, bad, again, files=("gone.toml",)), tmp_path)
    assert found.cases == (good,)
    assert [p.path for p in problems] == ["validation.cases[1].tools[0]", "validation.files[0]", "validation.cases[2]"]


def test_a_wrong_name_among_the_tools_is_one_problem_and_not_one_for_each_call():
    _, problems = usable_cases(config(case(PARIS, tools=("get_wether",))), None)
    assert [p.path for p in problems] == ["validation.cases[0].tools[0]"]


def test_models_of_no_service_are_told_with_their_place():
    llms = {"s": LLMEntry(provider="p"), "d": LLMEntry(provider="p", default_model="m")}
    table = ValidationTable(models=("s/a/b:c", "x/a", "s", "d"))
    wrong = wrong_models(Config(llms=llms, tables={"validation": table}))
    assert [p.path for p in wrong] == ["validation.models[1]", "validation.models[2]"]
    assert "no service is called 'x'" in wrong[0].text
    assert wrong_models(Config()) == []


def test_a_line_of_jsonl_is_named(tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_text('{"name": "a", "message": "m", "no_call": true}\n\n{"name": "b", "message": 5, "no_call": true}\n')
    with pytest.raises(ConfigError) as error:
        read_cases(config(), tmp_path, files=[file])
    assert [(p.line, p.path) for p in error.value.problems] == [(3, "cases[1].message")]


OWN = CaseTool(name="own", description="d", parameters={"type": "object", "properties": {"x": {"type": "number"}}})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (case(), "expects nothing"),
        (case(message=None, no_call=True), "there is neither"),
        (case(PARIS, turns=(ExpectedTurn(message="m", no_call=True),)), "add message, or turns"),
        (case(message=None, turns=(ExpectedTurn(message="m"),)), r"turns\[0\]: a case that expects nothing"),
        (case(PARIS, no_call=True), "contradict each other"),
        (case(PARIS, message=" "), "the message is empty"),
        (case(PARIS, tools=("get_wether",)), "did you mean 'get_weather'"),
        (case(PARIS, tools=()), "offers no tool 'get_weather'"),
        (case(ExpectedCall(tool="get_weather", arguments={"locaton": 1})), "did you mean 'location'"),
        (case(ExpectedCall(tool="own", arguments={"y": 1}), own_tools=(OWN,)), "own has no parameter 'y'"),
        (case(ExpectedCall(tool="get_weather", arguments={"days": "two"})), "would refuse it: days must be an integer"),
        (case(ExpectedCall(tool="own", arguments={"x": "1"}), own_tools=(OWN,)), "would refuse it: x must be a number"),
        (case(PARIS, mocks={"get_time": ToolMock()}), "offers no tool 'get_time'"),
        (case(PARIS, mocks={"get_weather": ToolMock(times=2)}), "add error"),
        (case(PARIS, mocks={"get_weather": ToolMock(error="e", result=1)}), "never returned"),
        (case(ExpectedCall(tool="get_weather", check={"days": ArgumentCheck(regex="(")})), "not a regular expression"),
        (case(ExpectedCall(tool="get_weather", check={"days": ArgumentCheck(schema={"type": "nubmer"})})), "nubmer"),
        (case(ExpectedCall(tool="get_weather", check={"days": ArgumentCheck(within=2)})), "add near"),
        (case(ExpectedCall(tool="get_weather", check={"days": ArgumentCheck(one_of=())})), "no value at all"),
        (case(own_tools=(OWN, OWN), no_call=True), "is called 'own' already"),
        (case(own_tools=(CaseTool(name="a b", description="d", parameters={"type": "object"}),), no_call=True), "a b"),
        (case(judge="bfcl"), "need its ground truth"),
        (case(possible_answers=({"get_weather": {}},)), "leaderboard"),
        (case(judge="bfcl", possible_answers=({"get_weather": {"days": 1}},)), "a list of the values"),
        (case(judge="bfcl", possible_answers=({"a": {}, "b": {}},)), "one tool's name"),
    ],
)
def test_an_unusable_case_is_refused_with_the_reason(wrong, said):
    with pytest.raises(ConfigError, match=said):
        read_cases(config(wrong), None)


def test_a_config_that_says_nothing_of_validation_has_no_cases():
    assert read_cases(Config(), None).cases == ()


def test_a_name_given_twice_is_refused():
    with pytest.raises(ConfigError, match=r"cases\[1\]: another case is called 'c' already: validation.cases\[0\]"):
        read_cases(config(case(PARIS), case(PARIS)), None)


def test_tools_that_the_file_of_the_config_does_not_have_may_be_named():
    extra = case(ExpectedCall(tool="coded", arguments={"anything": 1}))
    assert read_cases(config(extra), None, tools=["coded"]).cases == (extra,)
    assert check_cases([extra], config())[0].startswith("case 'c': calls[0].tool: ")


def test_aspects_are_what_a_case_can_show():
    mock = {"get_weather": ToolMock(error="e", times=1)}
    assert aspects_of(case(PARIS)) == ("right_tool", "right_arguments")
    assert aspects_of(case(no_call=True)) == ("abstains",)
    assert aspects_of(case(PARIS, PARIS)) == ("right_tool", "right_arguments", "parallel")
    assert "parallel" not in aspects_of(case(PARIS, PARIS, order="given"))
    assert aspects_of(case(PARIS, mocks=mock)) == ("right_tool", "right_arguments", "recovers")


def test_a_line_says_what_is_expected():
    checked = ExpectedCall(tool="t", arguments={"a": 1}, check={"b": ArgumentCheck(near=1)})
    assert expects(case(PARIS, checked)) == "get_weather(location='Paris'), t(a=1, b=…)"
    assert expects(case(no_call=True)) == "no call"
    assert expects(case(judge="bfcl", possible_answers=({"f": {"x": [1, 2], "y": ["", 1]}},))) == "f(x=1)"


@pytest.mark.parametrize(
    ("tools", "problem"),
    [((), None), (("act", "one/*"), None), (("other", "two/*"), "the case offers no tool 'act'")],
    ids=["not read", "known", "others"],
)
def test_tools_of_sources_may_be_named(tools, problem):
    """Whether they exist is only known once their source was read."""
    sources = {"scripted": [{"name": "one"}]}
    named = case(ExpectedCall(tool="act"), tools=None if problem else ("one/*",))
    table = ValidationTable(cases=(named,))

    _, problems = usable_cases(
        Config(tools=ToolsTable(sources=sources), tables={"validation": table}), None, tools=tools
    )

    assert [each.text.partition(";")[0] for each in problems] == ([problem] if problem else [])
