"""Cases in files."""

import attrs
import pytest
from flexchat import ConfigError
from flexchat.config.document import read_document
from flexchat.config.structure import structure
from flexchat_validation.case_files import add_cases, case_data, toml_of
from flexchat_validation.cases import (
    AnswerCheck,
    ArgumentCheck,
    Case,
    CaseFile,
    CaseTool,
    ExpectedCall,
    ExpectedTurn,
    ToolMock,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
VALUE = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=4,
)
TABLE = st.dictionaries(TEXT, VALUE, max_size=3)
CHECK = st.builds(
    ArgumentCheck,
    one_of=st.none() | st.lists(VALUE, max_size=2).map(tuple),
    near=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    optional=st.booleans(),
)
CALL = st.builds(ExpectedCall, tool=TEXT, arguments=TABLE, check=st.dictionaries(TEXT, CHECK, max_size=1))
CALLS = st.none() | st.lists(CALL, max_size=2).map(tuple)
ANSWER = st.none() | st.builds(AnswerCheck, contains=st.lists(TEXT, max_size=2).map(tuple))
TURN = st.builds(ExpectedTurn, message=TEXT, calls=CALLS, no_call=st.booleans(), answer=ANSWER)
CASE = st.builds(
    Case,
    name=TEXT,
    message=st.none() | TEXT,
    calls=CALLS,
    order=st.sampled_from(["any", "given"]),
    answer=ANSWER,
    turns=st.lists(TURN, max_size=1).map(tuple),
    tools=st.none() | st.lists(TEXT, max_size=1).map(tuple),
    own_tools=st.lists(st.builds(CaseTool, name=TEXT, description=TEXT, parameters=TABLE), max_size=1).map(tuple),
    mocks=st.dictionaries(TEXT, st.builds(ToolMock, result=VALUE, error=st.none() | TEXT), max_size=1),
    tags=st.lists(TEXT, max_size=2).map(tuple),
    possible_answers=st.none() | st.lists(TABLE, max_size=1).map(tuple),
)


def read(path):
    document = read_document(path)
    assert document.problems == ()
    value, flaws = structure(document.data, CaseFile)
    assert flaws == []
    return value.cases


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["toml", "json"])
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases=st.lists(CASE, min_size=1, max_size=2, unique_by=lambda case: case.name))
def test_what_is_written_reads_back_equal(tmp_path, suffix, cases):
    path = tmp_path / f"cases.{suffix}"
    if suffix == "toml":
        path.write_text(toml_of(cases), encoding="utf-8", newline="\n")
    else:
        path.unlink(missing_ok=True)
        add_cases(path, cases)
    assert read(path) == tuple(cases)


def test_keys_that_say_nothing_are_left_out():
    case = Case(name="a", message="m", calls=(ExpectedCall(tool="t", arguments={"x": False}),))
    assert case_data(case) == {"name": "a", "message": "m", "calls": [{"tool": "t", "arguments": {"x": False}}]}


CASE_A = Case(name="a", message="m", no_call=True)


def test_adding_to_toml_keeps_all_that_is_there_comments_too(tmp_path):
    path = tmp_path / "cases.toml"
    before = '# mine\n[[cases]]\nname = "b" # first\nmessage = "m"\nno_call = true'
    path.write_text(before)
    path.chmod(0o640)
    add_cases(path, [CASE_A])
    assert path.read_text().startswith(before)
    assert [case.name for case in read(path)] == ["b", "a"]
    assert path.stat().st_mode & 0o777 == 0o640
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("name", ["new.toml", "new.json"])
def test_a_file_that_is_not_there_is_made_and_added_to(tmp_path, name):
    path = tmp_path / name
    add_cases(path, [CASE_A])
    add_cases(path, [attrs.evolve(CASE_A, name="ü\x7f\n")])
    assert [case.name for case in read(path)] == ["a", "ü\x7f\n"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", '[[cases]]\nname = "a"\n', "called 'a' already exists"),
        ("a.json", '{"cases": [{"name": "a"}]}', "called 'a' already exists"),
        ("a.toml", "cases = []\n", r"as tables \[\[cases\]\]"),
        ("a.json", '{"cases": {}}', "is not a list"),
        ("a.toml", "x = ", "not TOML"),
        ("a.yaml", "", "a .toml or a .json file"),
    ],
)
def test_a_file_that_cannot_take_a_case_is_left_as_it_is(tmp_path, name, text, said):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        add_cases(path, [CASE_A])
    assert path.read_text() == text


def test_a_file_that_could_not_be_read_afterwards_is_not_written(tmp_path):
    path = tmp_path / "cases.json"
    with pytest.raises(ConfigError, match="larger than 8 MiB; or name another file"):
        add_cases(path, [attrs.evolve(CASE_A, message="m" * 9_000_000)])
    assert [*tmp_path.iterdir()] == []


def test_null_is_refused_in_toml_and_written_in_json(tmp_path):
    case = Case(name="a", message="m", calls=(ExpectedCall(tool="t", arguments={"x": None}),))
    with pytest.raises(ConfigError, match="TOML cannot express"):
        add_cases(tmp_path / "a.toml", [case])
    add_cases(tmp_path / "a.json", [case])
    assert read(tmp_path / "a.json") == (case,)
