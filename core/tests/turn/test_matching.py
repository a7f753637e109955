"""The first rule whose conditions all hold, as the original decides it."""

import time

import pytest
from flexchat.config.model import ResponseRule
from flexchat.domain import Profile
from flexchat.errors import NoMatchingRuleError
from flexchat.turn.matching import MAX_PASSED_OVER, each_verdict, match_response_rule
from hypothesis import given
from hypothesis import strategies as st

PROFILE = Profile(topic="Weather in Rome", user_message="Will it rain?", rag_results="partial", service="docs")


def rule(**match):
    return ResponseRule(llm="bot", match=match)


def fits(profile=PROFILE, **match):
    return match_response_rule(profile, [rule(**match), rule()])[0] == 0


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ({}, True),
        ({"topic": "Weather in Rome"}, True),
        ({"topic": "weather in rome"}, False),
        ({"topic_contains": "Rome"}, True),
        ({"topic_contains": "rome"}, False),
        ({"topic_contains": ""}, True),
        ({"intent_contains": ""}, False),
        ({"documents_contains": "x"}, False),
        ({"user_message_regexp": "rain"}, True),
        ({"user_message_regexp": "RAIN"}, False),
        ({"user_message_regexp": "/RAIN/i"}, True),
        ({"user_message_regexp": "/rain/s"}, False),
        ({"user_message_regexp": "^rain"}, False),
        ({"intent_regexp": ".*"}, False),
        ({"rag_results": "any"}, True),
        ({"rag_results": "partial"}, True),
        ({"rag_results": "match"}, False),
        ({"service": "docs"}, True),
        ({"intent": None}, False),
        ({"intent": ""}, False),
        ({"collection": False}, False),
        ({"reasoning": True}, False),
        ({"reasoning": False}, False),
        ({"no_such_field": None}, False),
        ({"topic_contains": "Rome", "service": "docs"}, True),
        ({"topic_contains": "Rome", "service": "web"}, False),
    ],
)
def test_a_rule_fits_if_all_its_conditions_hold(match, holds):
    """Equality is strict, parts and patterns look at texts only, a missing field equals nothing."""
    assert fits(**match) is holds


@pytest.mark.parametrize(("found", "holds"), [("match", True), ("partial", True), ("none", False)])
def test_any_means_documents_were_found(found, holds):
    """A full or a partial match."""
    assert fits(Profile(topic="t", rag_results=found), rag_results="any") is holds


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=6), st.sampled_from(["a", "b", "c"]))
def test_the_first_that_fits_answers(topics, topic):
    """Its index is the first one's; without any the error says what to add."""
    rules = [rule(topic=t) for t in topics]
    if topic in topics:
        index = topics.index(topic)
        assert match_response_rule(Profile(topic=topic), rules)[:2] == (index, rules[index])
    else:
        with pytest.raises(NoMatchingRuleError, match="without 'match' at the end"):
            match_response_rule(Profile(topic=topic), rules)


FIELDS = ("topic", "user_message", "intent", "service", "collection")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    ("suffix", "wanted", "holds"),
    [
        ("", "fares in Vienna", True),
        ("", "Fares in Vienna", False),
        ("", "fares", False),
        ("_contains", "in Vi", True),
        ("_contains", "in vi", False),
        ("_contains", "", True),
        ("_regexp", "^fares", True),
        ("_regexp", "Vienna$", True),
        ("_regexp", "/VIENNA/i", True),
        ("_regexp", "^Vienna", False),
    ],
)
def test_every_operator_on_every_field(field, suffix, wanted, holds):
    """The same for all fields with a text; on one that is not set nothing holds."""
    texts = {"topic": "x", field: "fares in Vienna"}

    assert fits(Profile(**texts), **{f"{field}{suffix}": wanted}) is holds
    if field not in ("topic", "user_message"):
        assert fits(Profile(topic="x"), **{f"{field}{suffix}": wanted}) is False


@pytest.mark.parametrize("wanted", ["match", "partial", "none", "any"])
@pytest.mark.parametrize("found", ["match", "partial", "none"])
def test_every_word_for_documents_against_every_result(wanted, found):
    expected = wanted == found or (wanted == "any" and found != "none")

    assert fits(Profile(topic="x", rag_results=found), rag_results=wanted) is expected


def test_reasons_are_told_for_the_conditions_that_fail():
    """All of them in an explanation, the first one in a turn; long texts are cut."""
    rules = [rule(topic="x", intent="y", service="docs"), rule(user_message_contains="snow"), rule()]
    profile = Profile(topic="t" * 100, user_message="Will it rain?", service="docs")

    told = [*each_verdict(profile, rules)]

    assert told[0].failed == (f'topic = "x": topic is "{"t" * 59}…"', 'intent = "y": intent is not set')
    assert told[1].failed == ('user_message_contains = "snow": user_message is "Will it rain?"',)
    assert told[2].fits
    assert match_response_rule(profile, rules) == (2, rules[2], (told[0].failed[0], told[1].failed[0]))


def test_a_pattern_that_takes_too_long_does_not_fit_and_says_so():
    slow = {"user_message_regexp": "(a|b|ab)*(?=c)"}
    profile = Profile(topic="x", user_message="ab" * 60 + "d")

    assert not fits(profile, **slow)
    assert next(each_verdict(profile, [rule(**slow)])).failed[0].endswith(", and the pattern took too long on it")


@pytest.mark.timed
def test_patterns_that_are_slow_on_a_message_share_their_time():
    """However many there are; one that is not slow is still searched for."""
    slow = [rule(user_message_regexp=f"(a|b|ab)*(?=c{number})") for number in range(20)]
    quick = rule(user_message_regexp="(?=abd)ab")
    profile = Profile(topic="x", user_message="ab" * 60 + "d")
    match_response_rule(Profile(topic="x", user_message="x"), [*slow, quick, rule()])  # compiles them
    started = time.thread_time()

    index, _, passed_over = match_response_rule(profile, [*slow, quick])

    assert time.thread_time() - started < 0.3  # 50 ms, and one more for each; alone they would take a second
    assert index == 20
    assert all(failed.endswith(", and the pattern took too long on it") for failed in passed_over)


@pytest.mark.timed
def test_a_long_message_and_many_rules_are_no_trouble():
    """What is told of a rule is cut before it is made readable."""
    profile = Profile(topic="x", user_message="word " * 20_000)
    started = time.thread_time()

    _, _, passed_over = match_response_rule(profile, [*[rule(user_message=str(n)) for n in range(1000)], rule()])

    assert time.thread_time() - started < 0.2
    assert passed_over[0] == f'user_message = "0": user_message is "{("word " * 12)[:59]}…"'


@pytest.mark.timed
def test_all_patterns_together_have_a_time():
    """Hundreds of slow patterns cost no more than some: those whose turn does not come count as failing."""
    profile = Profile(topic="a" * 30_000)
    rules = [ResponseRule(llm="x", match={"topic_regexp": f"(a|aa)+(?=b)c{n}"}) for n in range(400)]
    started = time.thread_time()

    found = [*each_verdict(profile, rules)]

    assert time.thread_time() - started < 1.5
    assert all("took too long" in verdict.failed[0] for verdict in found[-100:])


def test_a_turn_keeps_of_the_first_thousand_rules_why_they_did_not_fit():
    rules = [*(rule(topic=f"t{n}") for n in range(3_000)), rule()]
    index, _, passed_over = match_response_rule(Profile(topic="x"), rules)
    assert (index, len(passed_over)) == (3_000, MAX_PASSED_OVER)
    assert len([*each_verdict(Profile(topic="x"), rules)]) == 3_001


def test_thousands_of_rules_are_matched_in_time_to_their_number(cpu_growth):
    def work(size):
        rules = [*(rule(topic=f"t{n}") for n in range(size)), rule()]
        match_response_rule(Profile(topic="x"), rules)

    assert cpu_growth(work, 2_000, 20_000) < 25
