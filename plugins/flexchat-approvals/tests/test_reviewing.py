"""Plugins and models that decide before a person does."""

import json

import pytest
from flexchat.host import installed_plugins
from flexchat.plugin import hookimpl
from flexchat_testing import calls, says

ACME = {"tools": ["pay"], "plugin": "acme"}
REVIEWED = {"tools": ["pay"], "reviewer": "careful"}
CAREFUL = {"llm": "bot", "model": "r", "name": "careful", "prompt": "Be careful.", "match": {"user_message": "never"}}
PAYS = calls(("pay", {"amount": 5}))


class Gate:
    """A plugin that answers, or fails."""

    def __init__(self, answer):
        self.answer, self.seen = answer, []

    @hookimpl(optionalhook=True)
    def flexchat_before_approval(self, call, policy):
        self.seen.append((call.name, dict(call.arguments), policy.ask))
        return self.answer() if callable(self.answer) else self.answer


def with_plugins(**gates):
    host = installed_plugins()
    for name, gate in gates.items():
        host.register(gate, name)
    return host


def fail():
    raise RuntimeError("broken")


async def later(answer):
    return answer


def verdict(decision, reason="because"):
    return says(json.dumps({"decision": decision, "reason": reason}))


async def outcome(chat, **options):
    """Return a turn's status, and the error of its call."""
    async with chat:
        turn = await chat.respond("Go", **{"conversation": "c", **options})
    records = turn.tool_calls or ()
    return turn.status, None if turn.status == "suspended" else records[0].result.error


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("too much", "Not executed: rejected by acme: too much"),
        (False, "Not executed: rejected by acme"),
        (lambda: later("too much"), "Not executed: rejected by acme: too much"),
        ("", "Not executed: rejected by acme"),
    ],
)
@pytest.mark.parametrize("policy", [{}, ACME])
async def test_a_plugin_may_reject(open_chat, desk, answer, error, policy):
    gate = Gate(answer)

    ended = await outcome(open_chat(PAYS, approvals=[policy], plugins=with_plugins(acme=gate)))

    assert ended == ("done", error)
    assert gate.seen == [("pay", {"amount": 5}, "always")]
    assert desk.done == []


@pytest.mark.parametrize("answer", [True, lambda: later(True)])
async def test_the_plugin_that_a_policy_names_may_approve(open_chat, desk, answer):
    chat = open_chat(PAYS, approvals=[ACME], plugins=with_plugins(acme=Gate(answer)))
    async with chat:
        turn = await chat.respond("Go", conversation="c")

    (record,) = turn.tool_calls
    assert record.result.notes == ("approved by acme",)
    assert record.facts["approvals"] == {"policy": "approvals[0]", "by": "acme"}
    assert desk.done == [("pay", 5, "ann")]


@pytest.mark.parametrize("answer", [None, fail, 1, "yes".encode, lambda: [True], lambda: later(None)])
async def test_what_is_no_clear_answer_of_a_plugin_leaves_the_call_to_a_person(open_chat, desk, answer):
    ended = await outcome(open_chat(PAYS, approvals=[ACME], plugins=with_plugins(acme=Gate(answer))))

    assert ended == ("suspended", None)
    assert desk.done == []


async def test_a_plugin_that_the_policy_does_not_name_cannot_approve(open_chat, desk):
    plugins = with_plugins(acme=Gate(None), other=Gate(True))

    assert await outcome(open_chat(PAYS, approvals=[ACME], plugins=plugins)) == ("suspended", None)
    assert desk.done == []


async def test_a_rejection_wins(open_chat, desk):
    plugins = with_plugins(acme=Gate(True), other=Gate("no"))

    assert await outcome(open_chat(PAYS, approvals=[ACME], plugins=plugins)) == (
        "done",
        "Not executed: rejected by other: no",
    )
    assert desk.done == []


async def test_a_model_may_reject(open_chat, desk):
    chat = open_chat(PAYS, verdict("reject", "too much"), approvals=[REVIEWED], rules=[CAREFUL])

    assert await outcome(chat) == ("done", "Not executed: rejected by the reviewer careful: too much")
    assert desk.done == []


@pytest.mark.parametrize(
    "answer",
    [verdict("approve"), verdict("leave to a person"), says("yes"), verdict("sure"), calls(("pay", {}))],
)
async def test_whatever_else_a_model_answers_leaves_the_call_to_a_person(open_chat, desk, answer):
    chat = open_chat(PAYS, *[answer] * 4, approvals=[REVIEWED], rules=[CAREFUL])

    assert await outcome(chat) == ("suspended", None)
    assert desk.done == []


async def test_a_model_approves_only_if_the_policy_allows_it(open_chat, desk):
    policy = {**REVIEWED, "reviewer_approves": True}
    chat = open_chat(PAYS, verdict("approve", "small"), approvals=[policy], rules=[CAREFUL])
    async with chat:
        turn = await chat.respond("Go", conversation="c")

    assert turn.tool_calls[0].result.notes == ("approved by the reviewer careful: small",)
    assert desk.done == [("pay", 5, "ann")]


async def test_the_reviewer_reads_the_call_and_has_no_tools(open_chat, desk):
    seen = []

    class Sees:
        @hookimpl
        def flexchat_before_model_request(self, request):
            seen.append(request)

    chat = open_chat(PAYS, verdict("reject"), approvals=[REVIEWED], rules=[CAREFUL], hooks=[Sees()])
    await outcome(chat)

    review = seen[1]
    assert review.model == "r"
    assert review.system == "Be careful."
    assert '"amount": 5' in review.messages[-1].content
    assert not review.options.tools


async def test_a_call_that_a_person_was_asked_about_is_not_reviewed_again(open_chat, desk):
    gate = Gate(None)
    plugins = with_plugins(acme=gate)
    async with open_chat(PAYS, verdict("leave to a person"), approvals=[REVIEWED], rules=[CAREFUL]) as chat:
        turn = await chat.respond("Go", conversation="c")
        assert turn.status == "suspended"
    async with open_chat(approvals=[REVIEWED], rules=[CAREFUL], plugins=plugins) as chat:
        turn = await chat.resume(turn.id)
        assert turn.status == "suspended"

    assert gate.seen == []


async def test_a_plugin_that_fails_decides_nothing_in_strict_mode_either(open_chat, desk, monkeypatch):
    monkeypatch.setenv("FLEXCHAT_STRICT_PLUGINS", "1")
    plugins = with_plugins(acme=Gate(fail))

    assert await outcome(open_chat(PAYS, approvals=[ACME], plugins=plugins)) == ("suspended", None)
    assert desk.done == []
