"""The example configurations of the Node original load and route as its documentation says.

Models are scripted; the document stores are real clients of a small server that speaks the original's wrapper API.
"""

import json
from pathlib import Path

import pytest
from chroma_wrapper import running
from flexchat import Document, FlexChat
from flexchat.store import Collection
from flexchat_cli import check_config
from flexchat_testing.scripted import ScriptedProvider, calls

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples" / "node").glob("*.json"))
DOCUMENTS = {
    "library": {"faq": "opening hours of the library on weekdays", "contracts": "notice period of a rental contract"},
    "handbook": {"employee_handbook": "holidays and sick leave of an employee", "secrets": "holidays and sick leave"},
    "support": {"faq_shop": "how to return a parcel", "manuals": "how to clean the coffee machine"},
    "products": {"catalogue": "price of the coffee machine deluxe"},
}
MATCH, PARTIAL, NOTHING = "match", "partial", "nothing"


class Model(ScriptedProvider):
    """It can make embeddings too, as a config may name it for them; the wrapper makes its own."""

    async def embed(self, texts, model, **rest):
        raise AssertionError("nobody asks for them")


@pytest.fixture(scope="module")
def wrapper():
    with running() as server:
        yield server


@pytest.fixture
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key")
    monkeypatch.setenv("FLEX_CHAT_GEMINI_KEY", "not-a-real-key")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_loads(environment, path):
    """Without a problem; what means something else here than there is a note."""
    problems, notes = check_config(path)

    assert problems == []
    assert not any("never" in note.text for note in notes)


def read(name, wrapper, request):
    """Return an example with its document stores at the test's server."""
    (path,) = [path for path in EXAMPLES if path.name.startswith(name)]
    data = json.loads(path.read_text().replace("${OPENAI_API_KEY}", "k").replace("${FLEX_CHAT_GEMINI_KEY}", "k"))
    for store, table in data.get("rag_services", {}).items():
        table["url"] = wrapper.url(f"{request.node.name}-{store}".translate({ord(c): "-" for c in "[]/ "}))
    return data


async def opened(data, replies):
    """Open a chat whose services answer from one script, and fill its stores."""
    model = Model(replies)
    chat = FlexChat.from_config(data, providers=dict.fromkeys(data["llms"], model))
    for name, store in chat.stores.items():
        for collection, text in DOCUMENTS[name].items():
            await store.save_collection(Collection(name=collection, description=f"about {collection}"))
            await store.add([Document(text=text, title=collection.title(), id="1")], collection=collection)
    return chat, model


ROUTES = [
    # example, message, what models answer before the last answer, rule, model
    ("01", "hello", [], 0, "llama3.2"),
    ("02", "opening hours of the library on weekdays", [], 0, "llama3.2"),
    ("02", "opening hours of the library on a Sunday in May", [], 1, "llama3.2"),
    ("02", "who painted the ceiling", [], 2, "llama3.2"),
    ("03", "holidays and sick leave of an employee", [], 0, "llama3.2"),
    ("03", "holidays and sick leave for my dear aunt", [], 1, "llama3.2"),
    ("03", "who painted the ceiling", [], 2, "llama3.2"),
    ("04", "how to return a parcel", ["parcels"], 0, "gpt-4o-mini"),
    ("04", "how to clean the coffee machine", ["cleaning"], 1, "gpt-4o"),
    ("04", "sort a list in Rust", ["sorting", "Code"], 2, "gpt-4o"),
    ("04", "good morning", ["greeting", "small_talk"], 3, "llama3.2"),
    ("04", "who painted the ceiling", ["art", "other"], 4, "llama3.2"),
    ("05", "notice period of a rental contract", [], 0, "gemini-2.0-flash"),
    ("05", "say cheese in French", ["translation"], 1, "gemini-2.0-flash"),
    ("05", "who painted the ceiling", ["other"], 2, "llama3.2"),
    ("06", "hello", [], 0, "gemini-2.0-flash"),
    ("07", "notice period of a rental contract", ["contracts"], 0, "gpt-4o"),
    ("07", "opening hours of the library on weekdays", ["hours"], 1, "gemini-2.0-flash"),
    ("07", "who painted the ceiling", ["art"], 2, "gemini-2.0-flash"),
]


@pytest.mark.parametrize(("name", "message", "decisions", "rule", "model"), ROUTES)
async def test_every_rule_of_every_example_is_reached(wrapper, request, name, message, decisions, rule, model):
    """Match, partial match, intent, collection and the catch-all, each by a message that belongs there."""
    chat, script = await opened(read(name, wrapper, request), [*decisions, "the answer"])
    async with chat:
        turn = await chat.respond(message)

    assert (turn.rule, turn.response.model, turn.content) == (rule, model, "the answer")
    assert turn.response.warnings == ()
    assert len(script.requests) == len(decisions) + 1


async def test_the_context_of_a_match_is_in_the_prompt_and_cited(wrapper, request):
    chat, script = await opened(read("02", wrapper, request), ["On weekdays from nine."])
    async with chat:
        turn = await chat.respond("opening hours of the library on weekdays")

    prompt = script.requests[-1].messages[0].content
    assert "### " in prompt
    assert "(from faq)\n\nopening hours of the library on weekdays" in prompt
    assert [(c.store, c.collection) for c in turn.citations] == [("library", "faq")]
    assert (turn.profile.intent, turn.profile.rag_results) == ("library/faq", "match")


async def test_a_pinned_store_never_looks_into_another_collection(wrapper, request):
    """'secrets' has the same words, and stays closed."""
    chat, _ = await opened(read("03", wrapper, request), ["a", "b"])
    async with chat:
        turn = await chat.respond("holidays and sick leave")

    assert {document.collection for document in turn.profile.documents} == {"employee_handbook"}


async def test_the_tools_example_offers_two_of_three_tools(wrapper, request):
    """Example 08: tools by name, an allow-list, a limit of three rounds."""
    chat, script = await opened(read("08", wrapper, request), [calls(("calculator", {"expression": "6*7"})), "42"])
    async with chat:
        turn = await chat.respond("What is 6*7?")

    offered = [tool["function"]["name"] for tool in script.requests[0].options.tools]
    assert offered == ["calculator", "get_current_datetime"]
    assert turn.content == "42"
    assert [call.result.result["result"] for call in turn.response.tool_calls] == [42]
