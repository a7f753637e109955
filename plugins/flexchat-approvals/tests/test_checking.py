"""What is wrong with a policy, and which policies no call matches."""

import attrs
import pytest
from flexchat import FlexChat, tool
from flexchat.errors import ConfigError
from flexchat_cli import check_config

BASE = """
[llms.bot]
provider = "rehearsal"

[[tools.registry]]
name = "calculator"

[[tools.registry]]
name = "clock.now"
description = "The time."
parameters = { type = "object", properties = { zone = { type = "string" } } }
effect = "read"
implementation = { type = "builtin", handler = "get_current_datetime" }

[[responses]]
llm = "bot"
model = "m"
name = "support"
match = { user_message_contains = "help" }
tools = { enabled = true }

[[responses]]
llm = "bot"
model = "m"
tools = { enabled = true }

[conversations]
path = "kept.db"

[questions]
expires = "7d"
"""


@pytest.fixture
def found(tmp_path):
    """Return a function that checks policies, and returns the problems and notes: line, path and text."""

    def check(policies, base=BASE):
        path = tmp_path / "flexchat.toml"
        path.write_text(f"{base}\n{policies}")
        from flexchat.host import installed_plugins

        problems, notes = check_config(path, installed_plugins())
        first = base.count("\n") + 2
        return [[(each.line - first, each.path, each.text) for each in some] for some in (problems, notes)]

    return check


@pytest.mark.parametrize(
    ("policy", "path", "text"),
    [
        ('when = { type = "objekt" }', "approvals[0].when", "when is no JSON Schema: "),
        ("when = { properties = { n = { minimum = 'x' } } }", "approvals[0].when", "when is no JSON Schema: "),
        ("when = 5", "approvals[0].when", "expected a table"),
        ('ask = "sometimes"', "approvals[0].ask", "expected one of"),
        ('ask = "alway"', "approvals[0].ask", "(did you mean 'always'?)"),
        (
            'expires = "soon"',
            "approvals[0].expires",
            "expires is no duration: a duration is a whole number",
        ),
        ('expires = "0"', "approvals[0].expires", "must be more than 0"),
        ('expires = "9999999w"', "approvals[0].expires", "and at most 5200w; got '9999999w'"),
        ("tools = []", "approvals[0].tools", "tools is empty, so that no call matches"),
        ('tools = "pay"', "approvals[0].tools", "put it in [ ]"),
        ('origin = ["modell"]', "approvals[0].origin[0]", "(did you mean 'model'?)"),
        ('effect = "rite"', "approvals[0].effect", "(did you mean 'write'?)"),
        ('rule = ["suport"]', "approvals[0].rule[0]", "there is no rule 'suport' (did you mean 'support'?)"),
        ("rule = [2]", "approvals[0].rule[0]", "there is no rule 2 (names: support; numbers: 0 to 1)"),
        ('reviewer = "none"', "approvals[0].reviewer", "there is no rule 'none'"),
        ("reviewer_approves = true", "approvals[0].reviewer_approves", "needs a reviewer"),
        ('ask = "never"\nplugin = "acme"', "approvals[0].plugin", "has no effect with ask = 'never'"),
        ('tool = ["pay"]', "approvals[0]", "unknown key 'tool' (did you mean 'tools'?)"),
    ],
)
def test_a_policy_that_cannot_be_used_is_a_problem_with_its_line(found, policy, path, text):
    (problem,), _ = found(f"[[approvals]]\n{policy}")

    assert problem[0] == 1 + policy.count("\n")
    assert problem[1] == path
    assert text in problem[2]


def test_two_policies_have_different_names(found):
    problems, _ = found('[[approvals]]\nname = "a"\ntools = ["calculator"]\n[[approvals]]\nname = "a"')

    assert problems == [(4, "approvals[1].name", "two policies are called 'a'")]


def test_unknown_rules_are_reported_along_with_values_of_wrong_types(found):
    """In one run, whichever policy has them."""
    policies = """[[approvals]]
rule = ["suport", true]
reviewer = "suppor"
ask = 5
[[approvals]]
reviewer = 7
[[approvals]]
rule = "support"
"""
    problems, _ = found(policies)

    assert {(line, path) for line, path, _ in problems} == {
        (1, "approvals[0].rule[0]"),
        (1, "approvals[0].rule[1]"),
        (2, "approvals[0].reviewer"),
        (3, "approvals[0].ask"),
        (5, "approvals[1].reviewer"),
        (7, "approvals[2].rule"),
    }
    assert len(problems) == 6


def test_approvals_are_a_list(found):
    (problem,), _ = found('[approvals]\ntools = ["pay"]')

    assert problem[1:] == ("approvals", "expected a list of tables, got a table; write [[approvals]]")


@pytest.mark.parametrize(
    ("policies", "path", "text"),
    [
        (
            '[[approvals]]\ntools = ["calculater"]',
            "approvals[0].tools[0]",
            "no tool fits 'calculater' (did you mean 'calculator'?)",
        ),
        (
            '[[approvals]]\ntools = ["calculator"]\n[[approvals]]\nname = "b"\ntools = ["calc*"]',
            "approvals[1]",
            "it is never reached: approvals[0] matches all its calls",
        ),
        (
            '[[approvals]]\ntools = ["calculator"]\nwhen = { properties = { expresion = { maxLength = 5 } } }',
            "approvals[0].when.properties.expresion",
            "none of its tools has a parameter 'expresion' (did you mean 'expression'?)",
        ),
        (
            '[[approvals]]\ntools = ["calculator", "zap_*"]',
            "approvals[0].tools[1]",
            "no tool fits 'zap_*' (tools: calculator, clock.now, clock_now)",
        ),
        (
            '[[approvals]]\ntools = ["clock.*"]\neffect = "write"',
            "approvals[0].effect",
            "none of its tools has the effect 'write': it matches no call",
        ),
        (
            '[[approvals]]\nname = "all"\n[[approvals]]\ntools = ["calculator"]',
            "approvals[1]",
            "it is never reached: all matches all its calls",
        ),
        (
            '[[approvals]]\ntools = ["c*"]\n[[approvals]]\ntools = ["calculator", "cl*"]\norigin = ["model"]',
            "approvals[1]",
            "it is never reached: approvals[0] matches all its calls",
        ),
        ('[[approvals]]\nplugin = "nix"', "approvals[0].plugin", "no plugin is called 'nix': a person decides"),
    ],
)
def test_a_policy_that_no_call_matches_is_noted(found, policies, path, text):
    problems, notes = found(policies)

    assert problems == []
    assert [note[1:] for note in notes] == [(path, text)]


@pytest.mark.parametrize(
    "policies",
    [
        '[[approvals]]\ntools = ["calculator", "clock_now", "clo?k.*"]\nrule = ["support", 1]\nexpires = "2h"',
        '[[approvals]]\nwhen = { required = ["zone"] }\n[[approvals]]',
        '[[approvals]]\norigin = ["model"]\n[[approvals]]\ntools = ["calculator"]',
        '[[approvals]]\ntools = ["calculator"]\n[[approvals]]\ntools = ["c*"]',
        "[[approvals]]\nrule = [0]\n[[approvals]]\nrule = [0, 1]",
        '[[approvals]]\neffect = "read"\norigin = ["model"]\n[[approvals]]\neffect = "read"',
        '[[approvals]]\ntools = ["c?lculator"]\n[[approvals]]\ntools = ["c*"]',
        '[[approvals]]\nreviewer = 0\nplugin = "approvals"',
    ],
)
def test_nothing_is_noted_about_policies_that_apply(found, policies):
    assert found(policies) == [[], []]


def test_names_of_a_source_are_noted_once_its_tools_are_known(tmp_path):
    @tool
    def refund(amount: float) -> str:
        """Refund an amount."""

    async def open_billing(context):
        raise NotImplementedError

    def notes(*tools):
        config = {
            "llms": {"bot": {"provider": "rehearsal"}},
            "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
            "tools": {"lock": str(tmp_path / "tools.lock")},
            "approvals": [{"tools": ["billing/*", "billing/refnd", "refund"]}],
        }
        chat = FlexChat.from_config(config, tools=tools, sources={"billing": open_billing})
        return [note.text for note in chat.notes]

    assert [text.partition(" (")[0] for text in notes()] == ["no tool fits 'refund'"]
    assert notes(attrs.evolve(refund.definition, source="billing")) == [
        "no tool fits 'billing/refnd' (did you mean 'billing/refund'?)"
    ]


def test_a_time_for_questions_that_are_not_kept_is_noted(found):
    base = BASE.partition("[conversations]")[0]
    _, notes = found('[[approvals]]\nexpires = "2h"', base)

    assert [note[1:] for note in notes] == [
        ("approvals[0].expires", "it has no effect: without [conversations] no question is kept")
    ]


def test_policies_without_their_plugin_keep_a_chat_from_starting(tmp_path, monkeypatch):
    monkeypatch.setenv("FLEXCHAT_BLOCK_PLUGINS", "approvals")
    path = tmp_path / "flexchat.toml"
    path.write_text(f"{BASE}\n[[approvals]]\n")

    with pytest.raises(ConfigError, match="plugin 'approvals' blocked"):
        FlexChat.from_config(path)
