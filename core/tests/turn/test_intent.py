"""Phase 3: intents, as models really name them."""

import pytest
from engines import asker
from flexchat.config.model import ModelChoice
from flexchat.domain import CollectionHits, Document, RagResults
from flexchat.errors import ProviderOverloadedError
from flexchat.turn.detection import IntentDetector, PhaseNotes, Topic, intent_prompt, read_category
from flexchat_testing.scripted import ScriptedProvider, says
from hypothesis import given
from hypothesis import strategies as st

CATEGORIES = ("billing", "tech_support", "opening hours", "docs/user-guide", "other")
TOPIC = Topic("invoices", "new_topic")


def hit(name, distance, result="partial", store="docs"):
    return CollectionHits(
        result=result,
        store=store,
        collection=name,
        documents=(Document(text="x"),),
        distances=(distance,),
        description=f"about {name}",
    )


BOT = ModelChoice(llm="bot", model="m")


def detector(*replies, categories=None, choice=BOT, kind=ScriptedProvider):
    provider = kind(replies)
    intents = IntentDetector(choice, categories or {}, 50)

    def detected(rag, notes):
        return intents.detect("Where is my invoice?", TOPIC, rag, asker(provider, notes), notes)

    return detected, provider


NOTHING = RagResults()


async def detect(intents, rag=NOTHING):
    notes = PhaseNotes()
    return await intents(rag, notes), notes


@pytest.mark.parametrize(
    ("answer", "category"),
    [
        ("billing", "billing"),
        ("Billing", "billing"),
        ("  billing.\n", "billing"),
        ('"billing"', "billing"),
        ("**billing**", "billing"),
        ("Category: billing", "billing"),
        ("The category is: Billing.", "billing"),
        ("- billing: questions about invoices", "billing"),
        ("billing (the user asks for an invoice)", "billing"),
        ("tech support", "tech_support"),
        ("Tech-Support", "tech_support"),
        ("opening_hours", "opening hours"),
        ("docs/user-guide", "docs/user-guide"),
        ('{"intent": "billing"}', "billing"),
        ('```json\n{"category": "Tech_Support"}\n```', "tech_support"),
        ("The message is about an invoice, so I would say billing", "billing"),
        ("I think this fits best:\n\nbilling", "billing"),
        ("Other", "other"),
        ("billing and tech_support", None),
        ("refunds", None),
        ("rebilling", None),
        ("", None),
        ("{}", None),
    ],
)
def test_a_category_is_read_out_of_whatever_a_model_answers(answer, category):
    """Case, quotes, sentences, JSON; an invented name or two at once are none."""
    assert read_category(answer, CATEGORIES) == category


def test_a_category_within_another_is_told_from_it():
    assert read_category("It is about tech support billing", ("billing", "tech support billing", "other")) == (
        "tech support billing"
    )


@given(st.text())
def test_any_answer_names_a_category_or_none(answer):
    assert read_category(answer, CATEGORIES) in (*CATEGORIES, None)


async def test_a_match_is_its_own_intent_and_asks_nobody():
    intents, provider = detector(categories={"billing": "invoices"})

    intent, notes = await detect(intents, RagResults(result="match", hits=(hit("faq", 0.1, "match"),)))

    assert intent == "docs/faq"
    assert notes.skipped == "a document matches"
    assert provider.requests == []


async def test_the_model_chooses_between_categories_partial_results_and_other():
    intents, provider = detector(says("docs/faq"), categories={"billing": "invoices\nand refunds"})

    intent, notes = await detect(intents, RagResults(result="partial", hits=(hit("faq", 0.3), hit("manual", 0.4))))

    assert intent == "docs/faq"
    assert notes.input["categories"] == ["billing", "docs/faq", "docs/manual", "other"]
    (asked,) = provider.requests
    assert (asked.options.max_tokens, asked.options.temperature) == (50, 0.1)
    for part in ("- billing: invoices and refunds\n", "- docs/faq: about faq\n", "- other: ", "Where is my invoice?"):
        assert part in asked.messages[0].content


async def test_other_beside_partial_results_means_the_nearest():
    intents, _ = detector(says("other"), categories={"billing": ""})

    assert (await detect(intents, RagResults(result="partial", hits=(hit("a", 0.4), hit("b", 0.3)))))[0] == "docs/b"


async def test_other_alone_is_an_intent_that_rules_may_ask_for():
    intents, _ = detector(says("Other."), categories={"billing": ""})

    assert (await detect(intents))[0] == "other"


async def test_the_model_is_not_asked_where_only_one_answer_is_possible():
    intents, provider = detector(choice=None)

    assert (await detect(intents, RagResults(result="partial", hits=(hit("a", 0.4),))))[0] == "docs/a"
    assert provider.requests == []


@pytest.mark.parametrize(
    ("categories", "choice", "why"),
    [
        ({}, ModelChoice(llm="bot"), "no categories"),
        ({"billing": ""}, None, "no model is configured for it"),
    ],
)
async def test_without_categories_or_model_there_is_no_intent(categories, choice, why):
    intents, _ = detector(categories=categories, choice=choice)

    intent, notes = await detect(intents)

    assert intent is None
    assert notes.skipped == why


@pytest.mark.parametrize(
    ("answer", "quoted"), [("refunds, I would say", "'refunds, I would say'"), ("x" * 500, f"'{'x' * 60}…'")]
)
async def test_an_invented_category_is_taken_for_other_with_a_warning(answer, quoted):
    intents, _ = detector(says(answer), says(answer), categories={"billing": ""})

    alone, notes = await detect(intents)
    beside, _ = await detect(intents, RagResults(result="partial", hits=(hit("a", 0.4), hit("b", 0.3))))

    assert (alone, beside) == ("other", "docs/b")
    assert notes.warnings == [f"intent detection: no category is called {quoted}; using 'other'"]


async def test_a_model_that_does_not_answer_leaves_no_intent_and_a_warning():
    intents, _ = detector(ProviderOverloadedError("bot: overloaded", provider="scripted"), categories={"billing": ""})

    intent, notes = await detect(intents)

    assert intent is None
    assert notes.warnings == ["intent detection: bot: overloaded; the message has no intent"]


def test_the_question_names_the_topic_only_where_it_says_more():
    assert "is about: invoices" in intent_prompt("Where?", "invoices", {"a": ""})
    assert "is about" not in intent_prompt("Where?", "Where?", {"a": ""})


class StandIn(ScriptedProvider):
    follows_instructions = False


async def test_who_only_stands_in_for_a_model_is_not_asked():
    """Somebody chose it for this, so it is a warning, too."""
    intents, provider = detector(categories=dict.fromkeys(CATEGORIES, ""), kind=StandIn)
    found, notes = await detect(intents)
    assert found is None
    assert provider.requests == []
    assert notes.skipped == "'bot' only stands in for a model and cannot say"
    assert notes.warnings == [f"intent detection: {notes.skipped}; the message has no intent"]
