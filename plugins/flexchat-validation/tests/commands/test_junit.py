"""Runs as JUnit XML: whole, well-formed and true, whatever a model writes."""

from xml.etree import ElementTree

from flexchat_validation.attempts import Attempt, CallMade, ModelKey
from flexchat_validation.cases import Case
from flexchat_validation.commands.validate_report import junit_xml
from flexchat_validation.running import Plan
from hypothesis import given
from hypothesis import strategies as st

PLAN = Plan(models=("s/a", "s/b"), cases=(Case(name="one"), Case(name="two")), runs=2)


def attempt(model_id="s/a", case="one", repetition=0, outcome="passed", **rest):
    key = ModelKey(model_id=model_id)
    return Attempt(id="i", key=key, outcome=outcome, at="t", case=case, repetition=repetition, **rest)


def test_each_attempt_is_a_testcase_of_its_models_testsuite():
    """Passed, failed, error, and skipped where it was not made; the counts are those of the testcases."""
    attempts = [
        attempt(elapsed_ms=1500),
        attempt(repetition=1, outcome="failed", problems=("no call", "no answer"), content="Hm."),
        attempt("s/b", "two", outcome="error", problems=("no key",)),
    ]

    root = ElementTree.fromstring(junit_xml(PLAN, attempts).encode())

    assert [suite.get("name") for suite in root] == ["s/a", "s/b"]
    assert [{name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} for suite in root] == [
        {"tests": "4", "failures": "1", "errors": "0", "skipped": "2"},
        {"tests": "4", "failures": "0", "errors": "1", "skipped": "3"},
    ]
    assert (root.get("tests"), root.get("failures"), root.get("errors"), root.get("skipped")) == ("8", "1", "1", "5")
    by_name = {case.get("name"): case for case in root[0]}
    assert set(by_name) == {"one [1]", "one [2]", "two [1]", "two [2]"}
    assert (by_name["one [1]"].get("time"), len(by_name["one [1]"])) == ("1.500", 0)
    failure = by_name["one [2]"].find("failure")
    assert failure.get("message") == "no call"
    assert failure.text == "no call\nno answer\nanswered: Hm."


@given(text=st.text(st.characters(exclude_categories=[]), max_size=30))
def test_whatever_a_model_writes_the_file_is_well_formed(text):
    """Control characters, half surrogates and markup: a parser reads it, and reads the name again."""
    plan = Plan(models=("s/m",), cases=(Case(name=text),))
    call = CallMade(tool=text, params={text: text}, result={})
    made = attempt("s/m", text, outcome="failed", problems=(text,), content=text, calls=(call,))

    root = ElementTree.fromstring(junit_xml(plan, [made]).encode())

    kept = root[0][0].get("name")
    assert len(kept) == len(text)
    assert all(a in (b, "\N{REPLACEMENT CHARACTER}") for a, b in zip(kept, text, strict=True))
