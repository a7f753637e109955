"""On whose behalf a turn runs: wherever its code runs, and after its process has died."""

import contextlib
import json
import sqlite3

import pytest
from flexchat import ChatRequestError, FlexChat, Principal, ToolContext, Turn, tool
from flexchat.domain.codec import value_from_dict, value_to_dict
from flexchat.domain.conversation import ConversationTurn, turn_from_json, turn_to_json
from flexchat.plugin import hookimpl
from flexchat.turn.journal import request_from_json, request_to_json
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, calls, says

ANN = Principal("ann", ["support"])
EVE = Principal("eve", ["admin"])


class Seen:
    """The principals that events and calls are for."""

    def __init__(self):
        self.turns, self.calls = [], []

    @hookimpl
    def flexchat_turn_started(self, info):
        self.turns.append(info.principal)

    @hookimpl
    def flexchat_before_tool_call(self, call):
        self.calls.append(call.turn.principal)


def chat_of(model, *tools, seen=None, path=None):
    config = {"llms": {"s": {"provider": "scripted"}}, "responses": [{"llm": "s", "model": "m", "tools": {}}]}
    chat = FlexChat.from_config(config, providers={"s": model}, tools=tools, hooks=[seen or Seen()])
    if path is not None:
        chat.keep_in(SqliteConversations(path))
    return chat


@tool
def look() -> str:
    """Look."""
    return "seen"


async def test_events_calls_and_the_turn_have_it():
    """And what is kept of the turn."""
    seen, model = Seen(), ScriptedProvider([calls(("look", {})), says("Done")])

    async with chat_of(model, look, seen=seen) as chat:
        turn = await chat.respond("Look", principal=ANN)

    assert seen.turns == seen.calls == [ANN]
    assert turn.principal == ANN
    assert Turn.from_dict(json.loads(json.dumps(turn.to_dict()))).principal == ANN


async def test_without_one_there_is_none():
    """Also in the JSON of the turn."""
    async with chat_of(ScriptedProvider([says("Hi")])) as chat:
        turn = await chat.respond("Hello")

    assert turn.principal is None
    assert "principal" not in turn.to_dict()


async def test_a_conversation_keeps_who_each_turn_was_for(tmp_path):
    """Two principals in one conversation."""
    async with chat_of(ScriptedProvider([says("Hi")], repeat=True), path=tmp_path / "c.db") as chat:
        for principal in (ANN, None, EVE):
            await chat.respond("Hello", conversation="c", principal=principal)
        turns = await chat.conversations.turns("c")

    assert [turn.principal for turn in turns] == [ANN, None, EVE]


async def test_a_resumed_turn_has_it(tmp_path):
    """The process that goes on with the turn finds the principal in the journal."""
    seen, path = Seen(), tmp_path / "c.db"

    @tool
    async def stop() -> str:
        """Copy the database as a killed process leaves it."""
        with (
            contextlib.closing(sqlite3.connect(path)) as source,
            contextlib.closing(sqlite3.connect(tmp_path / "dead.db")) as target,
        ):
            source.backup(target)
            target.execute("DELETE FROM owners")
            target.commit()
        return "stopped"

    async with chat_of(ScriptedProvider([calls(("stop", {})), says("Done")]), stop, path=path) as chat:
        turn = await chat.respond("Stop", conversation="c", principal=ANN)
    again = chat_of(ScriptedProvider([says("Done")]), stop, seen=seen, path=tmp_path / "dead.db")
    async with again:
        resumed = await again.resume(turn.id)
        kept = await again.conversations.turns("c")

    assert resumed.principal == kept[0].principal == ANN
    assert set(seen.calls) <= {ANN}


async def test_an_accepted_turn_has_it(tmp_path):
    """The worker that runs it later knows no caller."""
    seen = Seen()
    async with chat_of(ScriptedProvider([says("Hi")]), seen=seen, path=tmp_path / "c.db") as chat:
        await chat.submit("Hello", conversation="c", principal=ANN)
        (handle,) = await chat.resume_interrupted()
        turn = await handle.result()

    assert turn.principal == ANN
    assert seen.turns == [ANN]


@pytest.mark.parametrize("named", [None, EVE])
async def test_turns_and_calls_of_tools_run_for_the_principal_of_the_outer_turn(named):
    """A tool gets nothing more by naming another principal."""
    seen, chats = Seen(), []

    @tool
    async def ask() -> str:
        """Ask the chat itself, and call a tool."""
        await chats[0].respond("Inner", principal=named)
        await chats[0].call_tool("look", {}, principal=named)
        return "asked"

    @tool
    async def call(context: ToolContext) -> str:
        """Call a tool."""
        await context.call_tool("look", {})
        return "called"

    model = ScriptedProvider([calls(("ask", {}), ("call", {})), says("Inner"), says("Done")])
    async with chat_of(model, ask, call, look, seen=seen) as chat:
        chats.append(chat)
        await chat.respond("Ask", principal=ANN)

    assert seen.turns == [ANN, ANN]
    assert seen.calls == [ANN] * 4


async def test_a_call_outside_turns_has_it():
    """As its caller gives it."""
    seen = Seen()
    async with chat_of(ScriptedProvider([]), look, seen=seen) as chat:
        await chat.call_tool("look", {}, principal=ANN)
        await chat.call_tool("look", {})

    assert seen.calls == [ANN, None]


async def test_a_key_of_another_principal_is_another_request(tmp_path):
    """A repetition must not show one user the answer of another."""
    from flexchat import KeyReusedError

    async with chat_of(ScriptedProvider([says("Hi")], repeat=True), path=tmp_path / "c.db") as chat:
        await chat.respond("Hello", idempotency_key="k", principal=ANN)
        with pytest.raises(KeyReusedError):
            await chat.respond("Hello", idempotency_key="k", principal=EVE)


@pytest.mark.parametrize("given", ["ann", {"name": "ann"}, ("ann", ("support",)), 1])
async def test_only_a_principal_is_one(given):
    """A name alone is refused, not trusted."""
    async with chat_of(ScriptedProvider([])) as chat:
        with pytest.raises(ChatRequestError, match=r"principal is a flexchat\.Principal, not"):
            await chat.respond("Hello", principal=given)


@pytest.mark.parametrize(("name", "roles"), [("", ()), (1, ()), (None, ()), ("ann", (1,)), ("ann", ("",)), ("ann", 3)])
def test_names_are_texts(name, roles):
    """Of principals and of roles, none of them empty."""
    with pytest.raises((TypeError, ValueError)):
        Principal(name, roles)


def test_roles_in_any_form():
    """A text is one role."""
    assert Principal("ann", "admin").roles == ("admin",)
    assert Principal("ann", ["a", "b"]) == Principal("ann", ("a", "b"))
    assert Principal("ann").roles == ()


def test_what_older_versions_kept_has_none():
    """Requests and turns without the field are read, and a request without one is written as before."""
    turn = ConversationTurn(id="t", messages=(), principal=ANN)
    old = json.loads(turn_to_json(turn))
    del old["principal"]

    assert turn_from_json(turn_to_json(turn)) == turn
    assert turn_from_json(json.dumps(old)).principal is None
    request = request_from_json({"user_message": "Hello"})
    assert request.principal is None
    assert request_to_json(request) == {"user_message": "Hello"}
    assert value_from_dict(Principal, value_to_dict(ANN)) == ANN
