"""What can be wrong in [stats] and [slo]: all of it at once, with its line."""

import pytest
from flexchat.host import installed_plugins
from flexchat_cli import check_config

START = """
[llms.bot]
provider = "scripted"

[[responses]]
llm = "bot"
model = "m"
name = "support"
tools = {{ enabled = true }}

[[tools.registry]]
name = "calculator"

{tables}
"""
KEPT = """[conversations]
path = "kept.db"

"""


def check(folder, tables, *, kept=KEPT):
    file = folder / "flexchat.toml"
    file.write_text(START.format(tables=kept + tables))
    return tuple(
        [f"{each.line}: {each.path}: {each.text}" for each in found]
        for found in check_config(file, installed_plugins())
    )


@pytest.mark.parametrize(
    ("objective", "text"),
    [
        ("success = 1.5", "above 0 and below 1"),
        ("success = 0", "above 0 and below 1"),
        ("success = 1", "above 0 and below 1"),
        ("success = nan", "finite"),
        ("success = inf", "finite"),
        ('success = "all"', "number"),
        ("p95_ms = 0", "milliseconds above 0"),
        ("p95_ms = -3", "milliseconds above 0"),
        ("p95_ms = nan", "finite"),
        ('success = 0.9, window = "90m"', "whole hours"),
        ('success = 0.9, window = "0"', "whole hours"),
        ('success = 0.9, window = "soon"', "window is a number of whole hours"),
        ("succes = 0.9", "did you mean 'success'?"),
        ("done = 0.9", "a tool has success and p95_ms, not done"),
        ("", "it requires nothing"),
    ],
)
def test_one_problem_is_reported_once(tmp_path, objective, text):
    problems, _ = check(tmp_path, f'[slo]\n"tool.calculator" = {{ {objective} }}')

    (problem,) = problems
    assert problem.startswith("18: slo.")
    assert text in problem


def test_all_problems_are_reported_at_once(tmp_path):
    tables = """
[stats]
argument_value = ["x"]

[slo]
"rule.suport" = { done = 0.9, p95 = 3 }
"tool.calculator" = { success = 2, p95_ms = -1 }
"""
    problems, _ = check(tmp_path, tables)

    assert [problem.split(":")[0] for problem in problems] == ["19", "22", "22", "23", "23"]


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("rule.suport", "no rule is called 'suport' (did you mean 'support'?)"),
        ("rul.support", "did you mean 'rule.support'?"),
        ("support", '"tool.NAME" or "rule.NAME"'),
        ("rule.", '"tool.NAME" or "rule.NAME"'),
    ],
)
def test_a_target_that_does_not_exist_is_a_problem(tmp_path, target, text):
    problems, _ = check(tmp_path, f'[slo]\n"{target}" = {{ p95_ms = 100 }}')

    assert len(problems) == 1
    assert text in problems[0]


def test_a_tool_that_does_not_exist_is_noted(tmp_path):
    """Of a source, others may be accepted later."""
    problems, notes = check(tmp_path, '[slo]\n"tool.calculater" = { success = 0.9 }')

    assert problems == []
    assert any("no tool is called 'calculater' (did you mean 'calculator'?)" in note for note in notes)


def test_objectives_need_a_journal(tmp_path):
    problems, _ = check(tmp_path, '[slo]\n"rule.support" = { done = 0.9 }', kept="")

    (problem,) = problems
    assert "add a table [conversations]" in problem
