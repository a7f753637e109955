"""Phases 1 to 5 together: what runs, what is left out, and what is told of it."""

import asyncio

import anyio
import attrs
import pytest
from flexchat import FlexChat
from flexchat.assembly import Parts
from flexchat.domain import AssistantMessage, Collection, Document, RetrievalHits, TextPart, UserMessage
from flexchat.errors import ChatRequestError, NoMatchingRuleError, ProviderConnectionError, TurnTimeoutError
from flexchat.llms.llm import Llms
from flexchat.plugin import ToolContext, ToolHandler, hookimpl
from flexchat.plugin.host import PluginHost
from flexchat.store import DocumentStoreType
from flexchat_testing.scripted import ScriptedProvider, calls, says

HISTORY = (UserMessage(content="What is a ticket?"), AssistantMessage(parts=(TextPart(text="A paper."),)))


@attrs.frozen(kw_only=True)
class ShelfConfig:
    distance: float = 0.1


class Shelf:
    def __init__(self, config, context):
        self.distance = config.distance
        self.asked = []

    async def collections(self):
        return [Collection(name="faq")]

    async def query(self, text, *, collection, top_k, where=None):
        self.asked.append(text)
        document = Document(text="A ticket costs 2.40.", title="Fares", source="fares.md", collection=collection)
        return RetrievalHits(documents=(document,), distances=(self.distance,), description="Questions and answers")

    async def aclose(self):
        pass


async def search(params, context):
    hits = await context.stores["docs"].query(params["query"], collection="faq", top_k=1)
    context.cite("docs", hits)
    return {"text": hits.documents[0].text}


class Plugin:
    @hookimpl
    def flexchat_register_document_stores(self):
        yield DocumentStoreType(name="shelf", config_class=ShelfConfig, create=Shelf)

    @hookimpl
    def flexchat_register_tool_handlers(self):
        yield ToolHandler(kind="internal", name="search", call=search)


def chat(config, *replies, distance=0.1, stores=True):
    host = PluginHost()
    host.load_installed()
    host.register(Plugin(), "shelf")
    provider = ScriptedProvider(replies)
    tables = {"llms": {"bot": {"provider": "scripted", "default_model": "m"}}, **config}
    if stores:
        tables["stores"] = {"docs": {"provider": "shelf", "distance": distance}}
    made = FlexChat.from_config(tables, providers={"bot": provider}, plugins=host)
    return made, provider


def phases(turn):
    return {record.phase: record for record in turn.phases}


async def test_phases_that_no_rule_needs_are_not_run():
    """One rule without conditions: one request, no search."""
    bot, provider = chat({"responses": [{"llm": "bot"}]}, says("hi"))

    turn = await bot.respond("Hello", history=HISTORY)

    assert len(provider.requests) == 1
    assert bot.stores["docs"].asked == []
    assert [record.skipped for record in turn.phases][:3] == ["no rule asks for it"] * 3
    assert turn.citations == ()


@pytest.mark.parametrize(
    "rule",
    [
        {"match": {"rag_results": "any"}},
        {"match": {"service": "docs"}},
        {"match": {"collection_contains": "fa"}},
        {"prompt": "{{rag_context}}"},
        {"prompt": "{{ documents.0.title }}"},
        {"match": {"intent": "docs/faq"}},
    ],
)
async def test_documents_are_looked_for_where_a_rule_looks_at_them(rule):
    bot, _ = chat({"responses": [{"llm": "bot", **rule}, {"llm": "bot"}]}, says("hi"))

    turn = await bot.respond("Hello")

    assert bot.stores["docs"].asked == ["Hello"]
    assert turn.rule == 0
    assert (turn.profile.service, turn.profile.collection, turn.profile.intent) == ("docs", "faq", "docs/faq")


async def test_the_topic_is_detected_for_a_follow_up_and_searched_with_it():
    reply = '{"topic_status": "continuation", "topic_summary": "annual ticket"}'
    bot, provider = chat({"responses": [{"llm": "bot", "prompt": "{{rag_context}}"}]}, says(reply), says("2.40"))

    turn = await bot.respond("And its price?", history=HISTORY, topic="tickets")

    assert bot.stores["docs"].asked == ["annual ticket: And its price?"]
    assert turn.profile.topic == "annual ticket"
    assert phases(turn)["topic detection"].outcome == {"topic": "annual ticket", "status": "continuation"}
    assert "### Fares (from faq)\nSource: fares.md\n\nA ticket costs 2.40." in provider.requests[1].messages[0].content


@pytest.mark.parametrize(
    ("config", "asked"),
    [
        (
            {"topic": {"llm": "bot", "model": "t"}, "intent": {"llm": "bot", "model": "i"}},
            "t",
        ),
        ({"intent": {"llm": "bot", "model": "i"}}, "i"),
        ({}, "last"),
    ],
)
async def test_the_topic_is_asked_of_topic_provider_else_intent_provider_else_the_first_catch_all(config, asked):
    rules = [{"match": {"topic_contains": "zzz"}, "llm": "bot", "model": "first"}, {"llm": "bot", "model": "last"}]
    bot, provider = chat({"responses": rules, **config}, says("tickets"), says("hi"))

    turn = await bot.respond("Hello")

    assert provider.requests[0].model == asked
    assert turn.rule == 1


async def test_a_turn_goes_on_when_every_deciding_model_fails():
    config = {
        "intent": {"llm": "bot", "detection": {"billing": ""}},
        "responses": [
            {"match": {"topic": "x"}, "llm": "bot"},
            {"match": {"intent": "billing"}, "llm": "bot"},
            {"llm": "bot"},
        ],
    }
    away = ProviderConnectionError("bot: no connection", provider="scripted")
    bot, _ = chat(config, away, away, says("hi"))

    turn = await bot.respond("Hello")

    assert turn.content == "hi"
    assert turn.rule == 2
    assert list(turn.response.warnings) == [
        "topic detection: bot: no connection; using the message itself as its topic",
        "intent detection: bot: no connection; the message has no intent",
    ]
    assert turn.to_dict()["phases"][0]["warnings"] == [turn.response.warnings[0]]


async def test_the_record_says_of_each_rule_passed_over_why():
    rules = [
        {"match": {"user_message": "Bye"}, "llm": "bot"},
        {"match": {"service": "web"}, "llm": "bot"},
        {"llm": "bot"},
    ]
    bot, _ = chat({"responses": rules, "stores": {}}, says("hi"), stores=False)

    turn = await bot.respond("Hello")

    assert phases(turn)["response matching"].outcome == {
        "rule": 2,
        "match": {},
        "llm": "bot",
        "passed_over": [
            {"rule": 0, "failed": 'user_message = "Bye": user_message is "Hello"'},
            {"rule": 1, "failed": 'service = "web": service is not set'},
        ],
    }


async def test_explain_tells_of_every_rule_and_asks_no_model_for_an_answer():
    rules = [
        {"match": {"user_message": "Bye", "rag_results": "none"}, "llm": "bot"},
        {"match": {"rag_results": "match"}, "llm": "bot"},
        {"llm": "bot"},
    ]
    bot, provider = chat({"responses": rules})

    told = await bot.explain("Hello")

    assert told.rule == 1
    assert [verdict.fits for verdict in told.verdicts] == [False, True, True]
    assert told.verdicts[0].failed == (
        'user_message = "Bye": user_message is "Hello"',
        'rag_results = "none": rag_results is "match"',
    )
    assert len(told.phases) == 5
    assert provider.requests == []


async def test_explain_of_a_message_that_fits_no_rule_is_no_error():
    bot, _ = chat({"responses": [{"match": {"user_message": "x"}, "llm": "bot"}, {"llm": "bot"}]})
    object.__setattr__(bot.config, "responses", bot.config.responses[:1])
    bot = FlexChat(Parts(config=bot.config, llms=Llms(), tools=bot.tools))

    told = await bot.explain("Hello")

    assert told.rule is None
    assert len(told.phases) == 4
    with pytest.raises(NoMatchingRuleError):
        await bot.respond("Hello")


async def test_passages_of_the_prompt_and_of_tools_are_the_citations_of_a_turn():
    """Each once, the prompt's first; named says whether the answer tells title or source."""
    config = {
        "tools": {
            "registry": [
                {
                    "name": "look_up",
                    "description": "Look something up",
                    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
                    "implementation": {"type": "internal", "handler": "search"},
                }
            ]
        },
        "responses": [{"llm": "bot", "tools": {}}],
    }
    bot, _ = chat(config, calls(("look_up", {"query": "price"})), says("2.40 (see fares.md)"))

    turn = await bot.respond("Hello")

    assert [c.to_dict() for c in turn.citations] == [
        {
            "title": "Fares",
            "source": "fares.md",
            "collection": "faq",
            "store": "docs",
            "distance": 0.1,
            "named": True,
            "via": "look_up",
        }
    ]

    config = {"responses": [{"llm": "bot", "prompt": "{{rag_context}}"}]}
    bot, _ = chat(config, says("No idea."), says("No idea."))
    turn = await bot.respond("Hello")
    streamed = [event async for event in bot.stream("Hello")][-1].turn

    assert [(c.title, c.via, c.named) for c in turn.citations] == [("Fares", "prompt", False)]
    assert streamed.citations == turn.citations
    assert turn.to_dict()["citations"][0]["source"] == "fares.md"


async def test_the_caller_chooses_collections_or_none():
    rule = {"responses": [{"llm": "bot", "prompt": "{{rag_context}}"}]}
    bot, _ = chat(rule, says("a"), says("b"), says("c"))

    none = await bot.respond("Hello", collections=[])
    some = await bot.respond("Hello", collections=["docs/faq"])

    assert none.profile.rag_results == "none"
    assert phases(none)["rag collection"].skipped == "no collection is chosen"
    assert some.profile.collection == "faq"
    with pytest.raises(ChatRequestError, match=r"no document store is called 'doc' \(did you mean 'docs'\?\)"):
        await bot.respond("Hello", collections=["doc/faq"])


async def test_partial_results_name_service_and_collection_once_the_intent_has_chosen_one():
    config = {
        "intent": {"llm": "bot", "detection": {"billing": "invoices"}},
        "responses": [{"match": {"collection": "faq", "rag_results": "partial"}, "llm": "bot"}, {"llm": "bot"}],
    }
    bot, _ = chat(config, says("docs/faq"), says("one"), says("billing"), says("two"), distance=0.4)

    chosen, other = await bot.respond("Hello"), await bot.respond("Hello")

    assert (chosen.rule, chosen.profile.service, len(chosen.profile.documents)) == (0, "docs", 1)
    assert (other.rule, other.profile.intent, other.profile.service) == (1, "billing", None)
    assert other.profile.rag_results == "partial"


BILLING = {"intent": {"llm": "bot", "detection": {"billing": "invoices"}}}


@pytest.mark.parametrize(
    ("rule", "tables", "searched"),
    [
        ({"match": {"intent": "docs/faq"}}, BILLING, True),
        ({"match": {"intent": "docs"}}, BILLING, True),
        ({"match": {"intent": "docs_billing"}}, BILLING, False),
        ({"match": {"intent": "billing"}}, BILLING, False),
        ({"match": {"intent_contains": "faq"}}, BILLING, True),
        ({"match": {"intent_regexp": "^(?:bil|x)"}}, BILLING, False),
        ({"match": {"intent_regexp": "/FAQ$/i"}}, BILLING, True),
        ({"match": {"intent_contains": "/"}}, {}, True),
    ],
)
async def test_an_intent_that_may_be_a_collection_makes_the_documents_needed(rule, tables, searched):
    """One that only a category can be does not."""
    bot, _ = chat({**tables, "responses": [{"llm": "bot", **rule}, {"llm": "bot"}]}, *[says("billing")] * 2)

    await bot.respond("Hello")

    assert bool(bot.stores["docs"].asked) is searched


async def test_no_model_is_asked_for_the_topic_of_an_intent_that_nobody_detects():
    """The rule can never fit; a message must not cost more for that."""
    bot, provider = chat(
        {"responses": [{"match": {"intent": "billing"}, "llm": "bot"}, {"llm": "bot"}]}, says("hi"), stores=False
    )

    turn = await bot.respond("Hello", history=HISTORY)

    assert len(provider.requests) == 1
    assert phases(turn)["topic detection"].skipped == "no rule asks for it"


async def test_no_model_is_asked_for_the_place_of_documents_that_are_not_there():
    """Where no document is found there is neither service nor collection, whatever the intent."""
    rules = [{"match": {"service": "docs"}, "llm": "bot"}, {"llm": "bot"}]
    bot, provider = chat({**BILLING, "responses": rules}, says("hi"), distance=1.5)

    turn = await bot.respond("Hello")

    assert len(provider.requests) == 1
    assert phases(turn)["intent detection"].skipped == "no rule asks for it"


async def test_a_topic_alone_is_something_to_go_on_with():
    """Also without a history, as flexchat explain --topic hands it over."""
    reply = '{"topic_status": "continuation", "topic_summary": "tickets"}'
    bot, _ = chat({"responses": [{"llm": "bot", "prompt": "{{rag_context}}"}]}, says(reply))

    await bot.explain("And its price?", topic="tickets")

    assert bot.stores["docs"].asked == ["tickets: And its price?"]


class Odd:
    """A provider that breaks its contract."""

    name = "odd"

    def __init__(self, does):
        self.does = does

    async def generate_chat(self, messages, model, options):
        if "message" not in messages[0].content:  # not a phase's prompt
            return says("hi")
        return await self.does()

    def tool_format(self, model):
        return "scripted"

    async def aclose(self):
        pass


async def raises():
    raise KeyError("password=hunter22222")


async def cancels_itself():
    task = asyncio.ensure_future(anyio.sleep_forever())
    task.cancel()
    await task


async def answers_nothing():
    return None


@pytest.mark.parametrize(
    ("does", "told"),
    [
        (raises, "KeyError: 'password=***"),
        (cancels_itself, "it was cancelled, though the turn was not"),
        (answers_nothing, "its answer is NoneType, not ChatResult"),
    ],
)
async def test_a_provider_that_breaks_its_contract_in_a_phase_does_not_end_the_turn(does, told):
    """It is told as a warning, without what looks like a secret."""
    config = {
        "llms": {"bot": {"provider": "scripted", "default_model": "m"}},
        **BILLING,
        "responses": [{"match": {"intent": "billing"}, "llm": "bot"}, {"llm": "bot"}],
    }
    bot = FlexChat.from_config(config, providers={"bot": Odd(does)})

    explained = await bot.explain("Hello", history=HISTORY)

    assert [len(record.warnings) for record in explained.phases[:3]] == [1, 0, 1]
    assert "the provider odd broke its contract: " in explained.phases[0].warnings[0]
    assert told in explained.phases[0].warnings[0]
    assert "hunter" not in str([record.to_dict() for record in explained.phases])


@pytest.mark.usefixtures("virtual_time")
async def test_the_time_of_a_turn_is_also_that_of_its_phases():
    """A phase ends with the turn's time, and the turn then fails at once."""
    config = {
        "llms": {"bot": {"provider": "scripted", "default_model": "m"}},
        "limits": {"turn_timeout_ms": 30},
        **BILLING,
        "responses": [{"match": {"intent": "billing"}, "llm": "bot"}, {"llm": "bot"}],
    }
    bot = FlexChat.from_config(config, providers={"bot": Odd(anyio.sleep_forever)})

    with anyio.fail_after(2), pytest.raises(TurnTimeoutError, match=r"after 30 ms \(during intent detection\)"):
        await bot.respond("Hello")


async def test_a_turn_that_is_cancelled_in_a_phase_ends_there():
    """The model's request, too."""
    ended = []

    async def waits():
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    config = {
        "llms": {"bot": {"provider": "scripted", "default_model": "m"}},
        **BILLING,
        "responses": [{"match": {"intent": "billing"}, "llm": "bot"}, {"llm": "bot"}],
    }
    bot = FlexChat.from_config(config, providers={"bot": Odd(waits)})
    turn = asyncio.ensure_future(bot.respond("Hello"))
    await anyio.wait_all_tasks_blocked()
    turn.cancel()

    with pytest.raises(asyncio.CancelledError):
        await turn
    assert ended == [True]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"collections": [7]}, 'a collection is "STORE/COLLECTION" or "STORE", not int'),
        ({"topic": 7}, "a topic is a text, not int"),
    ],
)
async def test_what_cannot_be_used_is_said_in_words(keys, told):
    bot, _ = chat({"responses": [{"llm": "bot"}]})

    with pytest.raises(ChatRequestError, match=told):
        await bot.respond("Hello", **keys)


async def test_one_collection_may_be_named_as_a_text():
    bot, _ = chat({"responses": [{"llm": "bot", "prompt": "{{rag_context}}"}]}, says("fares"), says("a"))

    assert (await bot.respond("Hello", collections="docs/faq", topic="\ud800")).profile.collection == "faq"


def test_what_is_cited_needs_a_distance_each():
    """Told to the tool, which can be blamed, and not found at the end of the turn."""
    hits = RetrievalHits(documents=(Document(text="x"),), distances=())
    context = ToolContext(tool=None)

    with pytest.raises(ValueError, match="needs a distance"):
        context.cite("docs", hits)
    with pytest.raises(ValueError, match="needs a distance"):
        context.cite("docs", attrs.evolve(hits, distances=(float("nan"),)))
