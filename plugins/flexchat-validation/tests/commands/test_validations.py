"""flexchat validations: what is known of models, read, taken away and brought in."""

import json
from pathlib import Path

import pytest

SUM = {"message": "What is 3 + 4?", "calls": [{"tool": "calculator"}]}
OLD = {
    "savedAt": "2025-01-02T03:04:05.000Z",
    "records": [
        {
            "modelId": "openai/gpt-4o",
            "totalTests": 60,
            "successCount": 58,
            "successRate": 0.9667,
            "lastTestedAt": "2025-01-02T03:04:05.000Z",
            "validated": True,
            "history": [],
        }
    ],
}


@pytest.fixture
def tested(run, tmp_path):
    """One run of six cases, in a database of its own; what one of them expects is wrong."""
    cases = [{**SUM, "name": f"sum {number}"} for number in range(5)]
    cases.append({**SUM, "name": "a word replaced", "calls": [{"tool": "text_replace"}]})
    Path("cases.json").write_text(json.dumps({"cases": cases}), "utf-8")
    run("validate", "--store", "results.db", "--cases", "cases.json")

    def call(*words, **rest):
        return run("validations", *words, "--store", "results.db", **rest)

    return call


def test_list_has_each_model_with_its_verdict(tested):
    """And why it is what it is."""
    ran = tested("list")

    assert ran.out.startswith("rehearsal/rehearsal\n  undecided: 5 of 6 right")
    (record,) = json.loads(tested("list", "--json").out)
    assert (record["model_id"], record["verdict"], record["test_count"]) == ("rehearsal/rehearsal", "undecided", 6)
    assert "test_history" not in record


def test_show_has_the_last_tests(tested):
    """Each with its case, and what was wrong; cut at the terminal's width."""
    ran = tested("show", "rehearsal/rehearsal")

    lines = ran.out.splitlines()
    assert sum(" passed  " in line for line in lines) == 5
    assert any("failed  a word replaced: text_replace was not called" in line for line in lines)
    assert max(len(line) for line in lines if "  failed  " in line) <= 100
    assert len(json.loads(tested("show", "rehearsal/rehearsal", "--json").out)["test_history"]) == 6


def test_show_of_a_model_that_was_not_tested_says_which_were(tested):
    """Status 2."""
    ran = tested("show", "rehearsal/reharsal")

    assert ran.status == 2
    assert "has not been tested (did you mean 'rehearsal/rehearsal'?)" in ran.err


@pytest.mark.slow
def test_what_is_exported_is_imported_without_loss(run, tested):
    """Into another database; a second time adds nothing."""
    assert tested("export", "results.json").err == "results of 1 model in results.json\n"

    assert run("validations", "import", "results.json", "--store", "other.db").err == "6 results are new\n"
    again = run("validations", "import", "results.json", "--store", "other.db", "--json")
    assert json.loads(again.out) == {"imported": 0}
    assert run("validations", "list", "--store", "other.db").out == tested("list").out


def test_a_dash_is_standard_output(tested, tmp_path):
    """And no file of that name."""
    before = {*tmp_path.iterdir()}
    assert json.loads(tested("export", "-").out)["format"] == "flexchat-validation/1"
    assert {*tmp_path.iterdir()} <= before


def test_records_of_the_node_original_are_imported(run, tmp_path):
    """TC-99: with a verdict of our own."""
    (tmp_path / "old.json").write_text(json.dumps(OLD))

    assert run("validations", "import", "old.json").status == 0
    assert "58 of 60 right" in run("validations", "list").out


@pytest.mark.parametrize(
    ("content", "status", "text"),
    [
        (None, 2, "'x.json' cannot be read: there is no such file"),
        ("{", 1, "'x.json', line 1, is not JSON"),
        ("[3]", 1, "x.json"),
    ],
)
def test_what_cannot_be_imported_is_a_sentence(run, tmp_path, content, status, text):
    """And nothing is."""
    if content is not None:
        (tmp_path / "x.json").write_text(content)

    ran = run("validations", "import", "x.json")

    assert ran.status == status
    assert text in ran.err
    assert "no model has been tested" in run("validations", "list").err


def test_the_results_are_those_the_configuration_names(run, script, tmp_path):
    """validation.store, from the configuration's folder; the rest of it may be broken."""
    path = script('{ text = "x" }')
    path.write_text(path.read_text() + '\n[validation]\nstore = "mine.db"\n[topic]\nprompt = 3\n')

    assert run("validations", "list").status == 0
    assert (tmp_path / "mine.db").exists()
    path.write_text(path.read_text().replace('"mine.db"', "3"))
    assert (ran := run("validations", "list")).status == 2
    assert "validation.store" in ran.err


def test_a_database_of_something_else_is_refused(run, tmp_path):
    """With a sentence."""
    (tmp_path / "other.txt").write_text("this is no database, but a text that is long enough to be one" * 20)

    ran = run("validations", "list", "--store", "other.txt")

    assert ran.status == 1
    assert "is not a SQLite database" in ran.err


@pytest.mark.slow
def test_results_of_other_tools_than_the_configurations_are_stale(run, script):
    """As everywhere else; where the configuration cannot be used, a note says that nothing is known of it."""
    case = '[[validation.cases]]\nname = "c"\nmessage = "hello"\nno_call = true\n[validation]\nstore = "mine.db"\n'
    path = script('{ text = "x" }')
    path.write_text(f"{path.read_text()}\n{case}")
    run("validate")
    assert json.loads(run("validations", "list", "--json").out)[0]["stale"] is False
    path.write_text(path.read_text().replace("calculator", "echo"))
    (record,) = json.loads(run("validations", "list", "--json").out)
    assert (record["stale"], record["stale_reasons"]) == (True, ["the tools have changed"])
    assert "stale: " in run("validations", "show", record["model_id"]).out
    path.write_text(f"{path.read_text()}\n[topic]\nprompt = 3\n")
    ran = run("validations", "list")
    assert "undecided" in ran.out
    assert "nothing is shown as stale" in ran.err
