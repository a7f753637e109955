"""Stores and kept conversations, from plain functions."""

import pytest
from flexchat import ChatRequestError, Document, SyncFlexChat
from flexchat_testing.scripted import ScriptedProvider, says


def chat(folder, *replies, **tables):
    config = {
        "llms": {"bot": {"provider": "scripted", "default_model": "m"}},
        "stores": {"docs": {"provider": "sqlite", "path": str(folder / "d.db"), "search": "keyword"}},
        "responses": [{"llm": "bot", "prompt": "{{rag_context}}"}],
        **tables,
    }
    return SyncFlexChat.from_config(config, providers={"bot": ScriptedProvider([says(reply) for reply in replies])})


def test_a_store_is_filled_and_conversations_go_on_without_an_event_loop(tmp_path):
    """run() reaches whatever FlexChat can do besides; respond takes a conversation and a tenant."""
    topic = '{"topic_status": "continuation", "topic_summary": "tickets"}'
    with chat(tmp_path, "2.40", topic, "Yes.", conversations={"path": str(tmp_path / "c.db")}) as sync:
        added = sync.run(
            lambda c: c.stores["docs"].add([Document(text="A ticket costs 2.40.", title="Fares")], collection="faq")
        )
        first = sync.respond("What costs a ticket?", conversation="one", tenant="acme")
        second = sync.respond("Really?", conversation="one", tenant="acme")
        theirs = sync.run(lambda c: c.conversations.of("acme").list())
        others = sync.run(lambda c: c.conversations.list())

    assert added == 1
    assert (first.conversation, [c.title for c in first.citations]) == ("one", ["Fares"])
    assert second.profile.topic == "tickets"
    assert [(info.id, info.turns) for info in theirs] == [("one", 2)]
    assert list(others) == []


def test_without_a_table_conversations_none_is_kept(tmp_path):
    with chat(tmp_path, "x") as sync, pytest.raises(ChatRequestError, match="add a table 'conversations'"):
        sync.respond("hi", conversation="one")
