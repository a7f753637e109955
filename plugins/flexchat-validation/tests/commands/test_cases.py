"""flexchat cases list, check and import."""

import json

import pytest

CASES = """
[[cases]]
name = "sum"
message = "What is 2 + 2?"
calls = [{ tool = "calculator" }]
tags = ["math"]

[[cases]]
name = "thanks"
message = "Thanks"
no_call = true
"""


@pytest.fixture
def cases(script, tmp_path):
    """A configuration with a file of two cases."""
    path = script('{ text = "x" }')
    path.write_text(path.read_text() + '\n[validation]\nfiles = ["cases.toml"]\n')
    file = tmp_path / "cases.toml"
    file.write_text(CASES)
    return file


def test_list_says_what_each_case_expects(run, cases):
    lines = run("cases", "list").out.splitlines()
    assert lines == ["sum     calculator() [math]", "thanks  no call"]
    (found,) = json.loads(run("cases", "list", "--tags", "math", "--json").out)
    assert found["aspects"] == ["right_tool", "right_arguments"]
    assert found["expects"] == "calculator()"


def test_list_without_cases_says_how_to_come_by_one(run, script):
    script('{ text = "x" }')
    ran = run("cases", "list")
    assert (ran.status, ran.out) == (0, "")
    assert "flexchat record" in ran.err


def test_check_finds_all_problems(run, cases):
    assert run("cases", "check").out == "2 cases: nothing is wrong with them\n"
    cases.write_text(CASES.replace("calculator", "calculater").replace("no_call", "nocall"))
    ran = run("cases", "check")
    assert ran.status == 2
    assert "cases.toml:5" in ran.out
    assert "did you mean 'calculator'" in ran.out
    assert "did you mean 'no_call'" in ran.out
    ran = run("cases", "check", "--json")
    assert (ran.status, json.loads(ran.out)["cases"]) == (2, 0)


@pytest.mark.slow
def test_check_counts_the_problems_and_gives_those_of_the_table_their_lines(run, cases):
    """Also the models that no service has, as flexchat check does, and beside what is wrong with other tables."""
    path = cases.with_name("flexchat.toml")
    text = path.read_text()
    path.write_text(text.replace('["cases.toml"]', '["cases.toml", "none.toml"]\nmodels = ["scirpt/x", "noslash"]'))
    ran = run("cases", "check")
    assert (ran.status, ran.out.splitlines()[-1]) == (2, "3 problems; 2 cases can be used")
    line = path.read_text()[: path.read_text().index("files =")].count("\n") + 1
    assert f"flexchat.toml:{line}: validation.files[1]: there is no such file: none.toml" in ran.out
    assert f"flexchat.toml:{line + 1}: validation.models[0]: model 'scirpt/x': no service is called 'scirpt'" in ran.out
    assert f"flexchat.toml:{line + 1}: validation.models[1]: " in ran.out
    checked = run("check")
    assert (checked.status, [*checked.out.splitlines()][:3]) == (2, ran.out.splitlines()[:3])
    assert "flexchat.toml cannot be used: 3 problems" in checked.out
    assert run("ask", "hi").status == 0
    validated = run("validate")
    assert (validated.status, validated.err.count("validation.files[1]")) == (2, 1)
    path.write_text(path.read_text() + "runs = 0\n")
    out = run("cases", "check").out
    assert all(place in out for place in ("validation.models[1]", "validation.runs", "validation.files[1]"))


def test_validate_names_all_models_that_cannot_be_tried_with_their_lines(run, cases):
    path = cases.with_name("flexchat.toml")
    path.write_text(path.read_text() + 'models = ["scirpt/x", "noslash"]\n')
    ran = run("validate")
    assert (ran.status, ran.err.count("flexchat.toml:")) == (2, 2)
    assert "model 'noslash'" in ran.err


def test_without_a_configuration_the_cases_are_those_that_validate_tries(run):
    assert run("cases", "check").out == "6 cases: nothing is wrong with them\n"
    assert "time in Tokyo" in run("cases", "list").out
    ran = run("cases", "list", "--no-plugin", "mock")
    assert (ran.status, ran.out) == (0, "")


def test_an_unknown_tag_is_one_sentence(run, cases):
    ran = run("cases", "list", "--tags", "maths")
    assert (ran.status, ran.err) == (2, "flexchat: no case has the tag 'maths' (did you mean 'math'?)\n")


QUESTION = {
    "question": [[{"role": "user", "content": "m"}]],
    "function": [{"name": "f", "description": "d", "parameters": {"type": "dict", "properties": {}, "required": []}}],
}


def test_import_adds_the_leaderboards_questions_to_a_file(run, script, tmp_path):
    script('{ text = "x" }')
    questions = tmp_path / "BFCL_v4_irrelevance.json"
    questions.write_text("".join(json.dumps({**QUESTION, "id": f"irrelevance_{n}"}) + "\n" for n in range(3)))
    ran = run("cases", "import", str(questions), "--limit", "2", "--out", "cases.json")
    assert (ran.status, ran.out) == (0, "2 cases added to cases.json\n")
    assert [case["expects"] for case in json.loads(run("cases", "list", "cases.json", "--json").out)] == ["no call"] * 2
    again = run("cases", "import", str(questions), "--out", "cases.json")
    assert (again.status, "called 'irrelevance_0' already exists" in again.err) == (2, True)
    assert "[[cases]]" in run("cases", "import", str(questions)).out


def test_import_finds_out_what_a_file_is_and_says_in_one_line_that_it_is_neither(run, tmp_path):
    test = {"vars": {"q": "m"}, "assert": [{"type": "tool-call-f1", "value": ["f"]}]}
    path = tmp_path / "tests.json"
    path.write_text(json.dumps({"prompts": ["{{q}}"], "tests": [test]}, indent=1))
    assert "[[cases]]" in run("cases", "import", str(path)).out
    for name in ("prose.txt", "prose.json", "prose.jsonl"):
        (tmp_path / name).write_text("one line\n" * 652)
        ran = run("cases", "import", name)
        assert (ran.status, len(ran.err.splitlines())) == (2, 1)
        assert f"{name} has neither the leaderboard's questions" in ran.err
    ran = run("cases", "import", "prose.txt", "--from", "bfcl")
    assert (ran.status, "there are 652 problems" in ran.err, "flexchat check" in ran.err) == (2, True, False)


def test_import_of_promptfoos_tests_says_what_it_leaves_out(run, tmp_path):
    test = {"vars": {"q": "m"}, "assert": [{"type": "tool-call-f1", "value": ["f"]}, {"type": "cost"}]}
    path = tmp_path / "promptfoo.json"
    path.write_text(json.dumps({"prompts": ["{{q}}"], "tests": [test]}))
    ran = run("cases", "import", str(path), "--json")
    assert json.loads(ran.out)["cases"][0]["calls"] == [{"tool": "f"}]
    assert "cost is left out" in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.json"], "there is no such file"),
        (["none.yaml"], "there is no such file"),
        (["none.json", "--limit", "0"], "--limit is at least 1"),
        (["x.yaml", "--answers", "y"], "--answers is for"),
    ],
)
def test_import_of_what_is_none_is_one_sentence(run, words, said):
    ran = run("cases", "import", *words)
    assert (ran.status, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert said in ran.err
