"""Questions of real turns at the webhook: beside the turn, again after a crash, and never by two at once."""

import asyncio
import base64
import json

import pytest
from flexchat import FlexChat, Reply
from flexchat_approvals import webhook
from flexchat_testing import calls, says
from webhook_receiver import SECRET, Receiver, verified


@pytest.fixture
async def receiver():
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
def sending_chat(open_chat, receiver):
    """Make a chat with a webhook."""

    def make(*replies, allow=True, **questions):
        table = {"expires": "7d", "webhook": receiver.url, "webhook_secret": SECRET, **questions}
        network = {"allow": [receiver.place]} if allow else {}
        return open_chat(*replies, approvals=[{"tools": ["pay"]}], questions=table, network=network)

    return make


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  the receiver has no event for each of its lists
            await asyncio.sleep(0.005)


async def test_a_suspended_turn_does_not_wait_for_the_receiver(sending_chat, receiver):
    receiver.open.clear()
    async with sending_chat(calls(("pay", {"amount": 5}))) as chat:
        turn = await chat.respond("Pay.", conversation="c")
        assert turn.status == "suspended"
        receiver.open.set()
        await until(lambda: receiver.bodies)

        message = verified(receiver.headers[0], receiver.bodies[0])
        assert message["data"]["id"] == turn.pending[0].id
        assert message["data"]["question"]["details"]["arguments"] == {"amount": 5}
        assert message["data"]["tenant"] == "default"


async def test_a_question_that_waits_live_is_sent_before_its_reply(sending_chat, receiver):
    async def when_it_was_sent(question):
        await until(lambda: receiver.bodies)
        return Reply(action="accept")

    async with sending_chat(calls(("pay", {"amount": 5})), says("Done.")) as chat:
        turn = await chat.respond("Pay.", conversation="c", on_question=when_it_was_sent)
    assert turn.status == "done"
    assert len(receiver.bodies) == 1


async def test_what_a_dead_process_has_not_sent_is_sent_by_the_next(sending_chat, open_chat, receiver, monkeypatch):
    """It dies between suspending and sending: here it has no webhook at all."""
    async with open_chat(calls(("pay", {"amount": 5})), approvals=[{"tools": ["pay"]}]) as chat:
        turn = await chat.respond("Pay.", conversation="c")
    assert receiver.bodies == []
    async with sending_chat():
        await until(lambda: receiver.bodies)
    async with sending_chat():
        pass
    assert [json.loads(body)["data"]["id"] for body in receiver.bodies] == [turn.pending[0].id]


async def test_a_server_that_only_resumes_sends_as_well(sending_chat, open_chat, receiver):
    async with open_chat(calls(("pay", {"amount": 5})), approvals=[{"tools": ["pay"]}]) as chat:
        await chat.respond("Pay.", conversation="c")
    chat = sending_chat()
    assert await chat.resume_interrupted() == []
    await until(lambda: receiver.bodies)
    await chat.aclose()


async def test_a_short_process_sends_before_it_ends(sending_chat, receiver):
    async with sending_chat(calls(("pay", {"amount": 5}))) as chat:
        await chat.respond("Pay.", conversation="c")
    assert len(receiver.bodies) == 1


async def test_closing_does_not_wait_long_for_a_silent_receiver(sending_chat, receiver, monkeypatch):
    """What it did not get is sent by the next process, once it is due again."""
    monkeypatch.setattr(webhook, "CLOSING_S", 0.05)
    monkeypatch.setattr(webhook, "AGAIN_S", 0.0)
    receiver.open.clear()
    async with sending_chat(calls(("pay", {"amount": 5}))) as chat:
        await chat.respond("Pay.", conversation="c")
        await until(lambda: receiver.bodies)
    receiver.open.set()
    monkeypatch.setattr(webhook, "LOOK_S", 0.01)
    async with sending_chat():
        await until(lambda: len(receiver.bodies) == 2)
    assert len({headers["webhook-id"] for headers in receiver.headers}) == 1


async def test_a_question_with_a_reply_is_not_sent(sending_chat, open_chat, receiver):
    async with open_chat(calls(("pay", {"amount": 5})), says("Done."), approvals=[{"tools": ["pay"]}]) as chat:
        turn = await chat.respond("Pay.", conversation="c")
        handle = await chat.answer(turn.pending[0].id, Reply(action="accept"), by="ann")
        await handle.result()
    async with sending_chat():
        pass
    assert receiver.bodies == []


async def test_several_processes_send_each_question_once(sending_chat, open_chat, receiver):
    async with open_chat(
        *[calls(("pay", {"amount": n})) for n in range(1, 21)], approvals=[{"tools": ["pay"]}]
    ) as chat:
        for n in range(20):
            assert (await chat.respond("Pay.", conversation=f"c{n}", tenant=f"t{n % 3}")).status == "suspended"
    chats = [sending_chat() for _ in range(3)]
    await asyncio.gather(*(chat.__aenter__() for chat in chats))
    await until(lambda: len(receiver.bodies) >= 20)
    await asyncio.gather(*(chat.aclose() for chat in chats))
    assert len(receiver.bodies) == len({headers["webhook-id"] for headers in receiver.headers}) == 20


def test_a_chat_that_is_used_on_one_loop_after_the_other_sends(open_chat, monkeypatch):
    """As scripts do that call asyncio.run for each message."""
    sent: list[str] = []

    async def take(outbox):
        sent.extend(each.id for each in await outbox.journal.take_unsent(limit=9, again_s=60))

    monkeypatch.setattr(webhook.Outbox, "send_all", take)
    questions = {"expires": "7d", "webhook": "https://hooks.example.com", "webhook_secret": SECRET}
    answers = [calls(("pay", {"amount": n})) for n in (1, 2)]
    chat = open_chat(*answers, approvals=[{"tools": ["pay"]}], questions=questions)

    async def ask(conversation, number):
        await chat.respond("Pay.", conversation=conversation)
        await until(lambda: len(sent) == number)

    for number in (1, 2):
        asyncio.run(ask(f"c{number}", number))
    asyncio.run(chat.aclose())
    assert len({*sent}) == 2


async def test_a_store_that_keeps_no_questions_is_reported(receiver, caplog):
    tables = {
        "llms": {"bot": {"provider": "scripted", "replies": [{"text": "Hi."}]}},
        "responses": [{"llm": "bot", "model": "m"}],
        "questions": {"webhook": receiver.url, "webhook_secret": SECRET},
        "network": {"allow": [receiver.place]},
    }
    async with FlexChat.from_config(tables) as chat:
        await chat.respond("Hello")
    assert "questions.webhook: nothing is sent" in caplog.text


async def test_a_chat_with_a_webhook_at_a_private_address_does_not_start(sending_chat):
    from flexchat import ConfigError

    with pytest.raises(ConfigError, match="does not lead to the public network"):
        sending_chat(allow=False)
    with pytest.raises(ConfigError, match="webhook_secret"):
        sending_chat(webhook_secret="whsec_" + base64.b64encode(b"short").decode())
