"""The first rule whose conditions all hold, as the original decides it."""

import pytest
from flexchat.config.model import ResponseRule
from flexchat.domain import Profile
from flexchat.errors import NoMatchingRuleError
from flexchat.phases.phase5_matching import match_response_rule
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
        assert match_response_rule(Profile(topic=topic), rules) == (topics.index(topic), rules[topics.index(topic)])
    else:
        with pytest.raises(NoMatchingRuleError, match="without 'match' at the end"):
            match_response_rule(Profile(topic=topic), rules)
