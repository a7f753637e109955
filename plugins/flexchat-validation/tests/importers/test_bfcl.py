"""The leaderboard's questions as cases, and its rules."""

import json

import pytest
from flexchat import ConfigError
from flexchat_validation.bfcl_rules import matches
from flexchat_validation.importers.bfcl import read_bfcl

SCHEMAS = {
    "geo.area": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "size": {"type": "number"},
            "count": {"type": "integer"},
            "exact": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "box": {"type": "object"},
            "rows": {"type": "array", "items": {"type": "object"}},
        },
        "required": [],
    }
}


def fits(argument, possible, value):
    return not matches([{"geo.area": {argument: possible}}], [("geo.area", {argument: value})], SCHEMAS)


@pytest.mark.parametrize(
    ("argument", "possible", "value", "accepted"),
    [
        ("name", ["New York, NY"], "new york NY", True),
        ("name", ["it's"], 'IT"S', True),
        ("name", ["New York"], "Boston", False),
        ("name", ["5"], 5, False),
        ("size", [5.0], 5, True),
        ("size", [5.0], "5", False),
        ("count", [5], 5.0, False),
        ("count", [1], True, False),
        ("count", ["total"], "total", True),  # a variable
        ("exact", [True], True, True),
        ("exact", [True], "true", False),
        ("tags", [["A b", "c"]], ["ab", "C"], True),
        ("tags", [["a", "b"]], ["b", "a"], False),
        ("tags", [["a"]], [1], False),
        ("box", [{"w": [1], "h": [2, ""]}], {"w": 1}, True),
        ("box", [{"w": [1], "h": [2]}], {"w": 1}, False),
        ("box", [{"w": [1]}], {"w": 1, "d": 2}, False),
        ("rows", [[{"k": ["a"]}, {"k": ["b"]}]], [{"k": "A"}, {"k": "b"}], True),
        ("rows", [[{"k": ["a"]}, {"k": ["b"]}]], [{"k": "b"}, {"k": "a"}], False),
    ],
)
def test_values_are_compared_by_the_published_rules(argument, possible, value, accepted):
    assert fits(argument, possible, value) is accepted


def test_what_may_be_left_out_is_marked_and_all_else_is_asked_for():
    answer = [{"geo.area": {"name": ["a"], "count": [1, ""]}}]
    assert not matches(answer, [("geo.area", {"name": "a"})], SCHEMAS)
    assert matches(answer, [("geo.area", {"count": 1})], SCHEMAS) == ["geo.area: name is missing"]
    assert matches(answer, [("geo.area", {"name": "a", "size": 1})], SCHEMAS) == [
        "geo.area: size was given, and is not expected"
    ]


def test_parallel_calls_may_come_in_any_order_and_none_may_be_missing():
    answer = [{"geo.area": {"name": ["a"]}}, {"geo.area": {"name": ["a", "b"]}}]
    a, b = ("geo.area", {"name": "a"}), ("geo.area", {"name": "b"})
    assert not matches(answer, [b, a], SCHEMAS)
    assert matches(answer, [a], SCHEMAS) == ["expected 2 calls, got 1: geo.area"]
    assert matches(answer, [b, b], SCHEMAS) == ["geo.area: name is 'b', expected 'a'"]


def test_where_nothing_was_called_that_is_what_is_said():
    assert matches([{"f": {}}], [], {}) == ["expected 1 call, none was made"]


def test_unreadable_arguments_and_other_tools_are_refused():
    answer = [{"geo.area": {"name": ["a", ""]}}]
    assert matches(answer, [("geo.area", None)], SCHEMAS) == ["geo.area: its arguments are not a JSON object"]
    assert matches(answer, [("other", {})], SCHEMAS) == ["geo.area was not called; other was"]


QUESTION = {
    "id": "live_simple_0",
    "question": [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Area?"}]],
    "function": [
        {
            "name": "geo.area",
            "description": "Area of a place.",
            "parameters": {
                "type": "dict",
                "required": ["name"],
                "properties": {
                    "name": {"type": "any"},
                    "at": {"type": "tuple", "items": {"type": "float"}},
                    "more": {"type": "dict", "properties": {"n": {"type": "integer"}}},
                },
            },
        }
    ],
}


def written(folder, name, *rows):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_question_becomes_a_case_with_its_own_tools_in_json_schemas_words(tmp_path):
    questions = written(tmp_path, "BFCL_v4_live_simple.json", QUESTION)
    truth = {"id": "live_simple_0", "ground_truth": [{"geo.area": {"name": ["x"]}}]}
    written(tmp_path, "possible_answer/BFCL_v4_live_simple.json", truth)
    (case,) = read_bfcl(questions).cases
    assert (case.name, case.message, case.prompt) == ("live_simple_0", "Area?", "Be brief.")
    assert (case.judge, case.max_iterations, case.tags, case.tools) == ("bfcl", 1, ("live_simple",), ())
    properties = case.own_tools[0].parameters["properties"]
    assert case.own_tools[0].parameters["type"] == properties["more"]["type"] == "object"
    assert properties["name"]["type"] == "string"
    assert (properties["at"]["type"], properties["at"]["items"]["type"]) == ("array", "number")


def test_irrelevance_is_no_call_and_needs_no_ground_truth(tmp_path):
    (case,) = read_bfcl(written(tmp_path, "BFCL_v4_irrelevance.json", QUESTION)).cases
    assert case.no_call
    assert case.possible_answers is None


@pytest.mark.parametrize("category", ["multi_turn_base", "simple_java", "simple_javascript", "live_relevance"])
def test_what_cannot_be_judged_here_is_refused_with_the_reason(tmp_path, category):
    with pytest.raises(ConfigError, match=f"{category} cannot be imported: "):
        read_bfcl(written(tmp_path, f"BFCL_v4_{category}.json", QUESTION))


def test_without_ground_truth_it_is_asked_for(tmp_path):
    with pytest.raises(ConfigError, match="--answers"):
        read_bfcl(written(tmp_path, "BFCL_v4_simple_python.json", QUESTION))


def test_a_question_that_is_a_conversation_is_left_out_with_a_note(tmp_path):
    talk = {**QUESTION, "question": [[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]]}
    found = read_bfcl(written(tmp_path, "BFCL_v4_irrelevance.json", talk, {"id": "x"}))
    assert found.cases == ()
    assert [note.split(":")[0] for note in found.notes] == ["live_simple_0", "x"]


def test_a_line_that_is_no_object_is_named(tmp_path):
    path = tmp_path / "BFCL_v4_irrelevance.json"
    path.write_text('{"id": 1}\n\n[]\n{"id": \n')
    with pytest.raises(ConfigError) as error:
        read_bfcl(path)
    assert [problem.line for problem in error.value.problems] == [3, 4]
