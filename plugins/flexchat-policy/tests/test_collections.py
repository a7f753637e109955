"""Roles and documents: what a principal finds is what it may search, wherever it searches."""

from __future__ import annotations

import asyncio

import pytest
from flexchat import ConfigError, FlexChat, InterruptedTurnError, NotPermittedError, Principal, ToolContext, tool
from flexchat.host import current_principal
from flexchat.store import Document
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says

NEAR = {"match_threshold": 0, "partial_threshold": 1}
STORES = {
    "handbook": {
        "provider": "memory",
        **NEAR,
        "documents": [
            {"text": "holiday is thirty days", "title": "Leave", "collection": "public"},
            {"text": "holiday of directors is sixty days", "title": "Board", "collection": "board"},
        ],
    },
    "wiki": {
        "provider": "memory",
        **NEAR,
        "documents": [{"text": "holiday song", "title": "Song", "collection": "pages"}],
    },
}
ROLES = {
    "all": {"tools": ["*"]},
    "none": {"tools": ["*"], "collections": []},
    "staff": {"tools": ["*"], "collections": ["handbook/pub*", "wiki"]},
    "board": {"tools": ["*"], "collections": ["*/board"]},
}
FOUND = {
    None: set(),
    ("stranger",): set(),
    ("none",): set(),
    ("staff",): {"Leave", "Song"},
    ("board",): {"Board"},
    ("staff", "board"): {"Leave", "Board", "Song"},
    ("all",): {"Leave", "Board", "Song"},
}
BY_ROLES = pytest.mark.parametrize("roles", FOUND, ids=str)


@tool(effect="read")
async def find_all(context: ToolContext) -> list[str]:
    """Search each store."""
    hits = [await store.query("holiday", collection=None, top_k=5) for store in context.stores.values()]
    return [each.title for answer in hits for each in answer.documents]


@tool(effect="read")
async def find_board(context: ToolContext) -> list[str]:
    """Search one collection by its name."""
    hits = await context.stores["handbook"].query("holiday", collection="board", top_k=5)
    return [each.title for each in hits.documents]


def make_chat(model=None, *, roles=ROLES, stores=STORES, path=None):
    data = {
        "llms": {"s": {"provider": "scripted"}},
        "responses": [
            {"llm": "s", "model": "m", "name": "desk", "prompt": "{{documents}}", "tools": {}},
        ],
        "stores": stores,
        "tools": {"registry": [{"name": "search_documents"}]},
        "roles": roles,
    }
    providers = {"s": model or ScriptedProvider([says("ok")], repeat=True)}
    chat = FlexChat.from_config(data, providers=providers, tools=[find_all, find_board])
    if path is not None:
        chat.keep_in(SqliteConversations(path))
    return chat


@pytest.fixture(params=FOUND, ids=str)
def principal(request):
    """One of each set of roles, on whose behalf the test runs."""
    roles = request.param
    token = current_principal.set(None if roles is None else Principal("ann", roles))
    yield current_principal.get()
    current_principal.reset(token)


def expected(principal):
    return FOUND[None if principal is None else tuple(principal.roles)]


async def test_a_listing_shows_what_may_be_searched(principal):
    """And nothing else: names of collections are content."""
    titles = {"public": "Leave", "board": "Board", "pages": "Song"}
    async with make_chat() as chat:
        listed = {each.name for store in chat.stores.values() for each in await store.collections()}

    assert {titles[name] for name in listed} == expected(principal)


async def test_a_search_of_everything_finds_what_may_be_searched(principal):
    """By a program, and by tools: our own, and any other that uses the stores."""
    async with make_chat() as chat:
        hits = [await store.query("holiday", collection=None, top_k=5) for store in chat.stores.values()]
        ours = await chat.call_tool("search_documents", {"query": "holiday"})
        own = await chat.call_tool("find_all", {})

    assert {each.title for answer in hits for each in answer.documents} == expected(principal)
    if expected(principal) or (principal is not None and principal.roles == ("none",)):
        assert {each["title"] for each in ours.result["results"]} == expected(principal)
        assert {*own.result} == expected(principal)
    else:
        assert not ours.success
        assert not own.success


async def test_the_search_of_a_turn_finds_what_may_be_searched(principal):
    """Its documents reach prompt and citations."""
    model = ScriptedProvider([says("ok")], repeat=True)
    async with make_chat(model) as chat:
        try:
            turn = await chat.respond("holiday")
        except NotPermittedError:
            assert principal is None or principal.roles == ("stranger",)
            return
    prompt = model.requests[-1].messages[0].content
    cited = {each.title for each in turn.citations}

    assert cited <= expected(principal)
    assert bool(cited) == bool(expected(principal))
    assert not any(title in prompt for title in FOUND["all",] - expected(principal))


@pytest.mark.parametrize("collection", ["board", "no_such"])
async def test_a_refusal_does_not_show_whether_the_collection_exists(collection):
    """It is decided before the store is asked, and the text depends on the name alone."""
    current_principal.set(Principal("ann", "staff"))
    async with make_chat() as chat:
        with pytest.raises(NotPermittedError) as raised:
            await chat.stores["handbook"].query("x", collection=collection, top_k=1)
        result = await chat.call_tool("search_documents", {"query": "x", "collection": collection})
        turn = await chat.respond("holiday", collections=[f"handbook/{collection}"])
    current_principal.set(None)

    why = f"ann has 'staff', which does not grant the collection 'handbook/{collection}'"
    assert str(raised.value) == why
    assert why in result.explained()
    assert [text for phase in turn.phases for text in phase.warnings if why in text]


async def test_a_model_reads_why_a_tool_finds_nothing():
    """The reason is the tool's error."""
    model = ScriptedProvider([calls(("find_board", {})), says("ok")])
    async with make_chat(model) as chat:
        turn = await chat.respond("Go", principal=Principal("ann", "staff"), collections=[])

    assert "does not grant the collection 'handbook/board'" in turn.tool_calls[0].result.explained()


async def test_a_resumed_turn_does_not_go_on_with_documents_of_a_role_that_is_gone(tmp_path):
    """What it has found is in its journal; the roles of now decide."""
    is_asked = asyncio.Event()

    async def hang(messages, options):
        is_asked.set()
        await asyncio.Event().wait()

    model = ScriptedProvider([hang, says("ok")])
    async with make_chat(model, path=tmp_path / "c.db") as chat:
        handle = chat.start("holiday", conversation="c", principal=Principal("ann", "board"))
        await is_asked.wait()
        handle.interrupt()
        with pytest.raises(InterruptedTurnError):
            await handle.result()
    less = {**ROLES, "board": {"tools": ["*"], "collections": ["wiki"]}}
    async with make_chat(model, roles=less, path=tmp_path / "c.db") as chat:
        (handle,) = await chat.resume_interrupted()
        with pytest.raises(NotPermittedError, match=r"the turn cannot go on: .*the collection 'handbook/board'"):
            await handle.result()


class FullStore:
    """A store that can be filled, with what it was asked."""

    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        async def method(*arguments, **options):
            self.asked.append(name)
            return []

        return method


@pytest.mark.parametrize("method", ["add", "delete", "list", "sources", "save_collection", "delete_collection"])
async def test_what_may_not_be_searched_may_not_be_changed_or_listed(method):
    """Each method of a store that can be filled."""
    from flexchat.plugin.permitted_stores import restrict_store
    from flexchat.store import Collection
    from flexchat_policy.roles import Role, refusal

    roles = {"staff": Role(tools=("*",), collections=("docs/a",))}
    inner = FullStore()
    store = restrict_store("docs", inner, lambda info, subject: refusal(roles, info.principal, subject))
    current_principal.set(Principal("ann", "staff"))

    async def call(collection):
        match method:
            case "add":
                await store.add([Document(text="x")], collection=collection)
            case "save_collection":
                await store.save_collection(Collection(name=collection))
            case "delete_collection":
                await store.delete_collection(collection)
            case _:
                await getattr(store, method)(collection=collection)

    await call("a")
    with pytest.raises(NotPermittedError):
        await call("b")
    current_principal.set(None)

    assert inner.asked == [method]


def test_all_problems_of_collections_are_reported_at_once():
    """With the nearest name; a pattern that fits nothing is a note."""
    roles = {"a": {"tools": ["*"], "collections": ["handbok/public", "wikis"]}}
    with pytest.raises(ConfigError) as raised:
        make_chat(roles=roles)
    notes = make_chat(roles={"a": {"tools": ["*"], "collections": ["hand?/x"]}}).notes

    assert "no document store is called 'handbok' (did you mean 'handbook'?)" in str(raised.value)
    assert "no document store is called 'wikis' (did you mean 'wiki'?)" in str(raised.value)
    assert any("'hand?/x' fits no document store" in str(note) for note in notes)
