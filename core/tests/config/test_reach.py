"""Rules that can never answer."""

import time

import pytest
from flexchat.config.model import ResponseRule
from flexchat.config.reach import EarlierRules, contradiction
from flexchat.config.reading import read_config
from flexchat.domain import Profile
from flexchat.turn.matching import each_verdict
from hypothesis import given
from hypothesis import strategies as st

BASE = {"llms": {"bot": {"provider": "scripted", "default_model": "m"}}}


def shadowed_by(match, earlier):
    rules = EarlierRules()
    for each in earlier:
        rules.add(each)
    return rules.taking(match)


def fits(profile, rule):
    return next(each_verdict(profile, [rule])).fits


def notes(*matches, **tables):
    rules = [{"llm": "bot", "match": match} for match in matches]
    reading = read_config({**BASE, **tables, "responses": [*rules, {"llm": "bot"}]})
    assert reading.problems == []
    return [str(note) for note in reading.notes]


@pytest.mark.parametrize(
    ("earlier", "match", "shadowed"),
    [
        ({"intent": "a"}, {"intent": "a"}, True),
        ({"intent": "a"}, {"intent": "a", "topic": "b"}, True),
        ({"intent": "a", "topic": "b"}, {"intent": "a"}, False),
        ({"topic_contains": "rain"}, {"topic": "rain in Rome"}, True),
        ({"topic_contains": "rain"}, {"topic_contains": "rainy"}, True),
        ({"topic_contains": "rainy"}, {"topic_contains": "rain"}, False),
        ({"topic_regexp": "/RAIN/i"}, {"topic": "rain"}, True),
        ({"topic_regexp": "rain"}, {"topic_regexp": "rain"}, True),
        ({"topic_regexp": "rain"}, {"topic_contains": "rain"}, False),
        ({"rag_results": "any"}, {"rag_results": "match"}, True),
        ({"rag_results": "any"}, {"rag_results": "none"}, False),
        ({"rag_results": "match"}, {"rag_results": "any"}, False),
        ({"rag_results_contains": "a"}, {"rag_results": "any"}, False),
        ({}, {"intent": "a"}, True),
    ],
)
def test_a_rule_behind_one_that_fits_whenever_it_does_is_never_reached(earlier, match, shadowed):
    assert (shadowed_by(match, [earlier]) == 0) is shadowed


@pytest.mark.parametrize(
    ("match", "never"),
    [
        ({"topic": "rain", "topic_contains": "sun"}, "topic cannot be 'rain' and fit topic_contains = 'sun'"),
        ({"topic": "rain", "topic_regexp": "^s"}, "topic cannot be 'rain' and fit topic_regexp = '^s'"),
        ({"rag_results": "none", "service": "docs"}, "without a document (rag_results = 'none') there is no service"),
        ({"rag_results": "any", "rag_results_contains": "x"}, None),
        ({"topic": "rain", "topic_contains": "ai", "topic_regexp": "n$"}, None),
        ({}, None),
    ],
)
def test_conditions_may_contradict_each_other(match, never):
    assert contradiction(match) == never


TEXTS = st.sampled_from(["", "a", "b", "ab", "abc", "b/c"])
MATCHES = st.dictionaries(
    st.sampled_from(["topic", "topic_contains", "topic_regexp", "intent", "intent_contains", "collection"]),
    TEXTS,
    max_size=3,
) | st.fixed_dictionaries(
    {"rag_results": st.sampled_from(["any", "match", "partial", "none"])}, optional={"topic": TEXTS}
)
PROFILES = st.builds(
    Profile,
    topic=TEXTS,
    intent=TEXTS | st.none(),
    rag_results=st.sampled_from(["match", "partial", "none"]),
    collection=TEXTS | st.none(),
)


@given(MATCHES, st.lists(MATCHES, max_size=3), PROFILES)
def test_what_is_said_to_be_never_is_never(match, earlier, profile):
    """No profile contradicts the notes: a note about a rule that can answer would be a lie."""
    rule = ResponseRule(llm="bot", match=match)
    if contradiction(match) is not None and profile.rag_results != "none":
        assert not fits(profile, rule)
    first = shadowed_by(match, earlier)
    if first is not None and fits(profile, rule):
        assert fits(profile, ResponseRule(llm="bot", match=earlier[first]))


@given(MATCHES, st.lists(MATCHES, max_size=3))
def test_the_first_that_takes_all_is_named(match, earlier):
    """It is found among many as it is found alone."""
    taking = [index for index, each in enumerate(earlier) if shadowed_by(match, [each]) is not None]

    assert shadowed_by(match, earlier) == (taking[0] if taking else None)


@pytest.mark.parametrize(
    ("matches", "tables", "expected"),
    [
        (
            [{"topic_contains": "rain"}, {"topic": "rainbow"}],
            {},
            "responses[1]: never reached: whatever it fits, responses[0] has answered before it",
        ),
        ([{"topic": "a", "topic_contains": "b"}], {}, "responses[0].match: this rule never fits: topic cannot be 'a'"),
        (
            [{"rag_results": "any"}],
            {},
            "responses[0].match.rag_results: no document store is configured (stores)",
        ),
        ([{"collection": "x"}], {}, "responses[0].match.collection: no document store is configured (stores)"),
        ([{"intent": "x"}], {}, "responses[0].match.intent: no category of intents fits this, so this rule never fits"),
        (
            [{"intent": "biling"}],
            {"intent": {"llm": "bot", "detection": {"billing": ""}}},
            "no category of intents fits this (did you mean 'billing'?), so this rule never fits; there is billing,",
        ),
        (
            [{"intent": "billing"}],
            {"intent": {"detection": {"billing": ""}}},
            "responses[0].match.intent: no model detects intents (intent.llm), so this rule never fits",
        ),
        (
            [{"intent": "billing"}],
            {"intent": {"detection": {"billing": ""}}, "stores": {"d": {"provider": "memory"}}},
            "responses[0].match.intent: no model detects intents (intent.llm), so this rule never fits",
        ),
        (
            [{"collection": "web"}],
            {"stores": {"d": {"provider": "memory", "collection": "faq"}}},
            "responses[0].match.collection: only faq is used (stores), so this rule never fits",
        ),
        (
            [{"user_message_regexp": "(?=a)b"}],
            {},
            "responses[0].match.user_message_regexp: a search with this pattern may take more than linear time",
        ),
        ([], {"stores": {"d": {"provider": "memory", "match_threshold": 0}}}, "nothing is ever a match"),
        (
            [],
            {"stores": {"d": {"provider": "memory", "partial_threshold": 0}}},
            "stores.d.partial_threshold: no distance is below 0, so nothing is ever a partial match",
        ),
        (
            [],
            {"stores": {"d": {"provider": "memory", "match_threshold": 0.4, "partial_threshold": 0.4}}},
            "stores.d.partial_threshold: nothing is ever a partial match: any distance below it is below match",
        ),
    ],
)
def test_check_notes_what_can_never_be(matches, tables, expected):
    assert any(expected in note for note in notes(*matches, **tables)), notes(*matches, **tables)


@pytest.mark.parametrize(
    "match", [{"intent": "billing"}, {"intent": "other"}, {"intent_regexp": "^b"}, {"intent_contains": "ill"}]
)
def test_an_intent_that_may_be_is_not_noted(match):
    assert notes(match, intent={"llm": "bot", "detection": {"billing": ""}}) == []


@pytest.mark.parametrize("match", [{"intent": "docs/faq"}, {"intent_contains": "docs/"}, {"intent": "docs"}])
def test_a_collection_may_be_an_intent(match):
    assert notes(match, stores={"docs": {"provider": "memory"}}) == []


@pytest.mark.timed
@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    [
        [{"topic": "t{}"}],
        [{"topic_contains": "t{}."}],
        [{"topic_regexp": "/^t{}[.]/i"}],
        [{"topic_regexp": "/^q{}[.]/i"}, {"topic": "t{}"}],
        [{"user_message_regexp": "(?=a)?(a+)+{}$"}, {"user_message": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!{}"}],
    ],
)
def test_a_thousand_rules_are_checked_in_a_few_seconds(kinds):
    """About half a second, several times that where coverage is measured; compared one by one it would be a minute."""
    count = 1000 // len(kinds)
    matches = [{k: v.replace("{}", str(i)) for k, v in kind.items()} for kind in kinds for i in range(count)]
    rules = EarlierRules()
    started = time.thread_time()

    for match in matches:
        assert rules.taking(match) is None
        rules.add(match)

    assert time.thread_time() - started < 8


TWO = {"docs": {"provider": "memory"}, "web": {"provider": "memory", "collection": "faq"}}
INTENTS = {"llm": "bot", "detection": {"billing": "", "support": ""}}


@pytest.mark.parametrize(
    "matches",
    [
        [{"rag_results": "any"}, {"rag_results": "none"}],
        [{"rag_results": "match"}, {"rag_results": "partial"}, {"rag_results": "none", "intent": "billing"}],
        [{"rag_results": "match", "service": "docs"}, {"service": "docs"}, {"service": "web"}],
        [{"intent": "billing"}, {"intent": "other"}, {"intent": "docs/faq"}, {"intent_regexp": "^docs/"}],
        [{"intent_contains": "docs/"}, {"rag_results": "partial", "intent": "web/faq"}, {"rag_results": "partial"}],
        [{"collection": "news"}, {"collection_contains": "ne", "rag_results": "partial"}],
        [{"user_message_regexp": r"/\bhelp\b/i"}, {"user_message_regexp": "^(hi|hello)"}, {"topic_contains": "rain"}],
        [{"user_message_regexp": "/usr/bin"}, {"user_message_regexp": "/api/v1/users"}, {"topic_regexp": "a/b/c"}],
    ],
)
def test_a_sensible_configuration_is_not_noted(matches):
    """Nobody reads notes that cry wolf."""
    assert notes(*matches, stores=TWO, intent=INTENTS) == []
