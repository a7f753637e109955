"""Kept conversations over HTTP."""

import pytest
from flexchat import AssistantMessage, Usage
from flexchat.domain.chat import ChatResult
from flexchat_sdk import ProviderConnectionError, ProviderData, ReasoningPart, TextPart
from flexchat_testing import calls
from flexchat_web.api.conversations import _attachment


async def chatted(client, prompt="What of Rome?", conversation="c1", **more):
    answer = await client.post("/chat/api", json={"prompt": prompt, "conversation": conversation, **more})
    return answer.json()


async def test_a_turn_of_a_conversation_is_kept_and_goes_on(told):
    """The second turn's model reads the first."""
    model = told.says("warm")
    client = await told.client()
    assert (await chatted(client))["turn"]["conversation"] == "c1"
    await chatted(client, "And Paris?")
    assert [m.content for m in model.requests[1].messages] == ["What of Rome?", "warm", "And Paris?"]


async def test_conversations_are_listed_searched_and_paged(told):
    """The last used one first."""
    client = await told.client()
    for id in ("a", "b", "c"):
        await chatted(client, f"about {id}{id}{id}", id)
    first = (await client.get("/api/conversations?limit=2")).json()["conversations"]
    assert [info["id"] for info in first] == ["c", "b"]
    assert set(first[0]) == {"id", "title", "turns", "topic", "status", "created_at", "updated_at", "cost"}
    rest = (await client.get("/api/conversations?before=b")).json()["conversations"]
    assert [info["id"] for info in rest] == ["a"]
    found = (await client.get("/api/conversations?search=bbb")).json()["conversations"]
    assert [(info["id"], info["title"], info["turns"]) for info in found] == [("b", "about bbb", 1)]


async def test_a_conversation_is_shown_with_its_messages_but_not_what_only_its_provider_reads(told):
    """Roles and parts as they are kept; provider_data is left out."""
    thought = ReasoningPart(text="hm", provider_data=ProviderData(scope="x", origin="y", data={"signature": "opaque!"}))
    said = ChatResult(message=AssistantMessage(parts=(thought, TextPart(text="warm"))), finish_reason="stop")
    told.says(calls(("get_weather", {"city": "Rome"})), said)
    client = await told.client()
    await chatted(client)
    answer = await client.get("/api/conversations/c1")
    (turn,) = answer.json()["turns"]
    assert [m["role"] for m in turn["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert turn["messages"][3]["parts"] == [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "warm"}]
    assert (turn["service"], turn["model"]) == ("robot", "r1")
    assert "opaque!" not in answer.text


async def test_a_kept_turn_says_what_it_said_when_it_ended(told):
    """Rule, phases, warnings, times, thoughts, tokens and calls: the same live and after a reload."""
    thought = ChatResult(
        message=AssistantMessage(parts=(ReasoningPart(text="hm"), TextPart(text="warm"))),
        finish_reason="stop",
        usage=Usage(input_tokens=3, output_tokens=2),
        warnings=("no seed",),
    )
    told.says(calls(("get_weather", {"city": "Rome"})), thought)
    client = await told.client()
    live = (await chatted(client))["turn"]
    (kept,) = (await client.get("/api/conversations/c1")).json()["turns"]
    assert {key: kept[key] for key in live if key in kept and key != "citations"} == {
        key: live[key] for key in live if key in kept and key != "citations"
    }
    assert {*live} - {*kept} == {"content", "conversation"}
    assert kept["rounds"][1]["reasoning"] == "hm"


async def test_what_has_no_price_is_said_and_never_counted_as_nothing(told):
    """Of a round, a turn, a conversation and in the list: no amount, and why there is none."""
    client = await told.client()
    live = (await chatted(client))["turn"]
    shown = (await client.get("/api/conversations/c1")).json()
    (listed,) = (await client.get("/api/conversations")).json()["conversations"]
    (kept,) = shown["turns"]
    assert live["cost"] == kept["cost"] == kept["rounds"][0]["cost"]
    assert (kept["cost"]["amount"], shown["cost"]["amount"]) == (None, None)
    assert kept["cost"]["unpriced"]
    assert listed["cost"] == shown["cost"]
    assert shown["cost"]["unpriced"] == ["1 turn is not fully priced"]
    (rule,) = shown["rules"]
    assert (rule["turns"], rule["cost"]) == (1, kept["cost"])


async def test_a_turn_that_fails_is_shown_as_failed(told):
    """With its question and its error."""
    told.says(ProviderConnectionError("nobody there"))
    client = await told.client()
    assert (await client.post("/chat/api", json={"prompt": "Hello?", "conversation": "c1"})).status_code == 502
    shown = (await client.get("/api/conversations/c1")).json()
    (turn,) = shown["turns"]
    assert (shown["status"], turn["status"], turn["error"]) == ("failed", "failed", "nobody there")
    assert [m["content"] for m in turn["messages"]] == ["Hello?"]


async def test_a_conversation_is_renamed_exported_and_deleted(told):
    """PATCH, GET …/export, DELETE; after that it is unknown."""
    client = await told.client()
    await chatted(client)
    assert (await client.patch("/api/conversations/c1", json={"title": "Rome"})).json()["title"] == "Rome"
    export = await client.get("/api/conversations/c1/export")
    assert export.headers["content-type"].startswith("text/markdown")
    assert 'filename="Rome.md"' in export.headers["content-disposition"]
    assert export.text.startswith("# Rome")
    as_json = await client.get("/api/conversations/c1/export?format=json")
    assert as_json.json()["turns"][0]["messages"][0]["content"] == "What of Rome?"
    assert (await client.delete("/api/conversations/c1")).status_code == 204
    assert (await client.get("/api/conversations/c1")).status_code == 404


@pytest.mark.parametrize("id", ["nobody", "%2e%2e%2fetc", "a%00b", "x" * 500, "%F0%9F%98%80"])
async def test_an_unknown_id_is_404_whatever_it_looks_like(told, id):
    """Also one that no store could keep."""
    client = await told.client()
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/export")]:
        assert (await client.request(method, f"/api/conversations/{id}{path}")).status_code == 404
    assert (await client.get(f"/api/conversations?before={id[:128]}")).status_code == 404


async def test_without_a_store_the_answer_says_how_to_get_one(told):
    """404 no-conversations; a chat that names a conversation is refused."""
    del told.tables["conversations"]
    client = await told.client()
    answer = await client.get("/api/conversations")
    assert answer.status_code == 404
    assert "[conversations]" in answer.json()["detail"]
    assert (await client.post("/chat/api", json={"prompt": "x", "conversation": "c"})).status_code == 422


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Rom 東京", "filename=\"Rom __.md\"; filename*=UTF-8''Rom%20%E6%9D%B1%E4%BA%AC.md"),
        ('../a"b\\c\nd', 'filename="a b c d.md"'),
        ("x\u202egpj", 'filename="x gpj.md"'),
        ("///", 'filename="conversation.md"'),
    ],
)
def test_an_exported_file_is_named_as_the_conversation(title, name):
    """Without what a file's name cannot hold, or what lies about its ending."""
    assert name in _attachment(title, "md")
