"""The step that asks: which calls, what is asked, and where each reply leads."""

import asyncio
import sqlite3
from datetime import datetime, timedelta

import attrs
import pytest
from flexchat import FlexChat, QuestionAsked, Reply, ToolMessage, tool
from flexchat.errors import ClosedQuestionError, InvalidReplyError
from flexchat.plugin import hookimpl
from flexchat_testing import calls

YES, NO = Reply(action="accept"), Reply(action="decline")
PAY = {"tools": ["pay"]}


@attrs.define
class Person:
    """Replies to questions, and keeps them."""

    reply: object = YES
    asked: list = attrs.field(factory=list)

    def __call__(self, question):
        self.asked.append(question)
        return self.reply(question) if callable(self.reply) else self.reply


def pays(*amounts):
    """The answer of a model that pays several times."""
    return calls(*(("pay", {"amount": amount}) for amount in amounts))


def edit(**arguments):
    return Reply(action="accept", content={"arguments": arguments})


def results_of(turn):
    return [record.result for record in turn.tool_calls or ()]


async def suspended(chat, **options):
    """Return a turn that waits for replies."""
    turn = await chat.respond("Go", **{"conversation": "c", **options})
    assert turn.status == "suspended"
    return turn


async def answered(chat, pending, reply=YES, **options):
    """Reply to a question, and return the turn once it has ended or waits again."""
    handle = await chat.answer(pending.id, reply, **{"by": "ann", **options})
    return await handle.result()


async def test_a_yes_lets_the_call_run(open_chat, desk):
    person = Person()
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await chat.respond("Go", conversation="c", on_question=person)

    (question,) = person.asked
    assert question.message == 'Run pay with {"amount": 5}?'
    assert question.details == {
        "tool": "pay",
        "source": "",
        "rule": "all",
        "arguments": {"amount": 5},
        "effect": "write",
        "policy": "approvals[0]",
        "origin": "model",
    }
    assert [*question.remember] == ["conversation", "always"]
    assert results_of(turn)[0].notes == ("approved (approvals[0])",)
    assert desk.done == [("pay", 5, "ann")]


@pytest.mark.parametrize(
    "policy",
    [
        {"tools": ["look"]},
        {"tools": ["p"]},
        {"effect": "read"},
        {"origin": ["program", "tool"]},
        {"rule": ["other", 0]},
        {"when": {"properties": {"amount": {"exclusiveMinimum": 100}}}},
        {"when": {"required": ["to"]}},
        {"ask": "never"},
    ],
)
async def test_a_call_that_no_policy_requires_an_approval_for_runs_at_once(open_chat, desk, policy):
    other = {"llm": "bot", "model": "m", "name": "other", "match": {"user_message_contains": "never"}}
    async with open_chat(pays(5), approvals=[policy], rules=[other]) as chat:
        turn = await chat.respond("Go", conversation="c")

    assert turn.status == "done"
    assert desk.done == [("pay", 5, "ann")]


@pytest.mark.parametrize(
    "policy",
    [
        {},
        {"tools": ["look", "pa*"]},
        {"effect": "write"},
        {"origin": ["model"]},
        {"rule": ["all"]},
        {"rule": [0]},
        {"when": {"properties": {"amount": {"exclusiveMinimum": 4}}}},
        {"when": {"properties": {"to": {"const": "eve"}}}},  # absent, and so fitting: a person decides
        {"ask": "once"},
        {"tools": ["pay"], "effect": "write", "origin": ["model"], "rule": ["all"], "when": {"required": ["amount"]}},
    ],
)
async def test_a_call_that_a_policy_is_about_waits_for_a_person(open_chat, desk, policy):
    async with open_chat(pays(5), approvals=[policy]) as chat:
        await suspended(chat)

    assert desk.done == []


async def test_the_first_policy_that_matches_decides(open_chat, desk):
    small = {"tools": ["pay"], "when": {"properties": {"amount": {"maximum": 10}}}, "ask": "never"}
    async with open_chat(pays(5, 50), approvals=[small, {**PAY, "name": "large"}]) as chat:
        turn = await suspended(chat)

    assert [pending.question.details["policy"] for pending in turn.pending] == ["large"]
    assert desk.done == [("pay", 5, "ann")]


async def test_a_condition_on_an_absent_argument_never_spares_a_question(open_chat, desk):
    """The tool may have a default that the condition excludes."""
    small = {"tools": ["pay"], "when": {"properties": {"amount": {"maximum": 0.5}}}, "ask": "never"}
    async with open_chat(calls(("pay", {})), approvals=[small, PAY]) as chat:
        await suspended(chat)

    assert desk.done == []


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (NO, "Not executed: the user did not approve this call of 'pay'"),
        (
            Reply(action="decline", why="too much"),
            "Not executed: the user did not approve this call of 'pay': too much",
        ),
    ],
)
async def test_a_no_refuses_the_call_and_the_model_reads_why(open_chat, desk, reply, error):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await chat.respond("Go", conversation="c", on_question=Person(reply))

    assert results_of(turn)[0].error == error
    assert desk.done == []


async def test_the_model_reads_who_has_rejected_a_call(open_chat, desk):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        turn = await answered(chat, turn.pending[0], Reply(action="decline", why="too much"))

    assert results_of(turn)[0].error == "Not executed: rejected by ann: too much"
    assert desk.done == []


@pytest.mark.parametrize("person", [None, lambda question: None])
async def test_without_a_person_and_a_store_nothing_runs(open_chat, desk, person):
    async with open_chat(pays(5), approvals=[PAY], kept=False) as chat:
        turn = await chat.respond("Go", on_question=person)

    assert results_of(turn)[0].error == "Not executed: a person must approve 'pay', and nobody approved this call"
    assert results_of(turn)[0].hint == "nobody can be asked here"
    assert desk.done == []


async def test_without_a_store_a_person_who_is_there_decides(open_chat, desk):
    person = Person()
    async with open_chat(pays(5), approvals=[PAY], kept=False) as chat:
        await chat.respond("Go", on_question=person)
        await chat.call_tool("pay", {"amount": 6}, on_question=person)

    assert [question.remember for question in person.asked] == [{}, {}]
    assert desk.done == [("pay", 5, "ann"), ("pay", 6, "ann")]


async def test_calls_of_one_answer_are_pending_together_while_others_run(open_chat, desk):
    answer = calls(("pay", {"amount": 5}), ("look", {}), ("pay", {"amount": 6}))
    async with open_chat(answer, approvals=[PAY]) as chat:
        turn = await suspended(chat)
        assert desk.done == [("look", "sky")]
        first, second = sorted(turn.pending, key=lambda pending: pending.question.details["arguments"]["amount"])
        await chat.answer(first.id, YES, by="ann", resume=False)
        turn = await answered(chat, second, NO)

    assert turn.status == "done"
    assert [result.success for result in results_of(turn)] == [True, True, False]
    assert desk.done == [("look", "sky"), ("pay", 5, "ann")]


async def test_another_process_approves_and_a_third_goes_on(open_chat, desk):
    approvals = [PAY]
    async with open_chat(pays(5), approvals=approvals) as chat:
        turn = await suspended(chat)
    async with open_chat(approvals=approvals) as chat:
        (pending,) = await chat.pending()
        assert await chat.answer(pending.id, YES, by="ann", resume=False) is None
    async with open_chat(approvals=approvals) as chat:
        (handle,) = await chat.resume_interrupted()
        done = await handle.result()
        row = await chat.question(pending.id)

    assert (done.id, done.status, row.replied_by) == (turn.id, "done", "ann")
    assert row.used_by
    assert desk.done == [("pay", 5, "ann")]


async def test_edited_arguments_are_shown_again_and_run_as_shown(open_chat, desk):
    async with open_chat(pays(500), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        turn = await answered(chat, turn.pending[0], edit(amount=50, to="bob"))
        (again,) = turn.pending
        assert again.question.details["arguments"] == {"amount": 50, "to": "bob"}
        assert desk.done == []
        turn = await answered(chat, again)

    (result,) = results_of(turn)
    assert turn.status == "done"
    assert "a person has changed the arguments" in result.notes
    assert result.hint == 'A person has changed the arguments of this call to: {"amount": 50, "to": "bob"}'
    (read,) = [message for message in turn.response.messages if isinstance(message, ToolMessage)]
    assert '"hint": "A person has changed' in read.content
    assert desk.done == [("pay", 50, "bob")]


async def test_edited_arguments_that_no_policy_is_about_run_at_once(open_chat, desk):
    large = {"tools": ["pay"], "when": {"properties": {"amount": {"exclusiveMinimum": 100}}}}
    person = Person(edit(amount=50))
    async with open_chat(pays(500), approvals=[large]) as chat:
        await chat.respond("Go", conversation="c", on_question=person)

    assert len(person.asked) == 1
    assert desk.done == [("pay", 50, "ann")]


async def test_arguments_that_were_changed_twice_run_as_they_were_changed_last(open_chat, desk):
    large = {"tools": ["pay"], "when": {"properties": {"amount": {"exclusiveMinimum": 100}}}}
    replies = iter([edit(amount=200), edit(amount=50)])
    async with open_chat(pays(500), approvals=[large]) as chat:
        await chat.respond("Go", conversation="c", on_question=lambda question: next(replies))

    assert desk.done == [("pay", 50, "ann")]


async def test_an_edit_that_changes_nothing_is_a_yes(open_chat, desk):
    person = Person(edit(amount=5))
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        await chat.respond("Go", conversation="c", on_question=person)

    assert len(person.asked) == 1
    assert desk.done == [("pay", 5, "ann")]


async def test_the_last_of_several_edits_counts(open_chat, desk):
    large = {"tools": ["pay"], "when": {"properties": {"amount": {"exclusiveMinimum": 100}}}}
    async with open_chat(pays(500), approvals=[large]) as chat:
        turn = await suspended(chat)
        turn = await answered(chat, turn.pending[0], edit(amount=400))
        turn = await answered(chat, turn.pending[0], edit(amount=300))
        turn = await answered(chat, turn.pending[0], edit(amount=50))

    assert turn.status == "done"
    assert desk.done == [("pay", 50, "ann")]


async def test_the_last_edit_that_was_approved_stands_without_the_policy(open_chat, desk):
    async with open_chat(pays(500), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        turn = await answered(chat, turn.pending[0], edit(amount=400))
        turn = await answered(chat, turn.pending[0], edit(amount=300))
        await chat.answer(turn.pending[0].id, YES, by="ann", resume=False)
    async with open_chat(approvals=[{"tools": ["look"]}]) as chat:
        await chat.resume(turn.id)

    assert desk.done == [("pay", 300, "ann")]


async def test_a_person_who_edits_each_time_ends_in_a_refusal(open_chat, desk):
    person = Person(lambda question: edit(amount=question.details["arguments"]["amount"] + 1))
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await chat.respond("Go", conversation="c", on_question=person)

    assert not results_of(turn)[0].success
    assert desk.done == []


@pytest.mark.parametrize(
    "content", [{"arguments": {"amount": "much"}}, {"arguments": 5}, {"arguments": None}, {"amount": 5}]
)
async def test_an_edit_that_does_not_fit_the_tool_is_no_reply(open_chat, desk, content):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        with pytest.raises(InvalidReplyError):
            await chat.answer(turn.pending[0].id, Reply(action="accept", content=content), by="ann")
        assert (await chat.question(turn.pending[0].id)).state == "open"

    assert desk.done == []


async def test_a_schema_with_references_holds_for_edits(open_chat, desk):
    @tool
    def book(seats: list) -> str:
        """Book seats."""
        desk.done.append({"seats": seats})
        return "booked"

    book = attrs.evolve(book.definition, parameters=REFERRING)
    first = {"seats": [{"row": 1}]}
    async with open_chat(calls(("book", first)), approvals=[{}], tools=[book]) as chat:
        turn = await suspended(chat)
        (pending,) = turn.pending
        with pytest.raises(InvalidReplyError):
            await chat.answer(pending.id, edit(seats=[{"row": "one"}]), by="ann")
        turn = await answered(chat, pending, edit(seats=[{"row": 2}]))
        await answered(chat, turn.pending[0])

    assert desk.done == [{"seats": [{"row": 2}]}]


REFERRING = {
    "type": "object",
    "properties": {"seats": {"type": "array", "items": {"$ref": "#/$defs/Seat"}}},
    "$defs": {"Seat": {"type": "object", "properties": {"row": {"type": "integer"}}, "required": ["row"]}},
}


async def test_masked_values_are_not_shown_and_stay_in_an_edit(open_chat, desk):
    @tool
    def log_in(user: str, password: str) -> str:
        """Log in."""
        desk.done.append((user, password))
        return "in"

    given = {"user": "ann", "password": "correct-horse"}
    person = Person(lambda question: edit(**{**question.details["arguments"], "user": "bob"}))
    async with open_chat(calls(("log_in", given)), approvals=[{}], tools=[log_in]) as chat:
        turn = await suspended(chat)
        (pending,) = turn.pending
        assert "correct-horse" not in str(pending.to_dict())
        turn = await answered(chat, pending, person(pending.question))
        await answered(chat, turn.pending[0])

    assert desk.done == [("bob", "correct-horse")]


async def test_the_question_makes_invisible_characters_visible(open_chat, desk):
    person = Person()
    async with open_chat(calls(("pay", {"to": "ann\u202ebob\x1b[2K\u200b"})), approvals=[PAY]) as chat:
        await chat.respond("Go", conversation="c", on_question=person)

    assert person.asked[0].message == 'Run pay with {"to": "ann\\u202ebob\\u001b[2K\\u200b"}?'


async def test_long_arguments_are_shown_in_full(open_chat, desk):
    person, name = Person(), "x" * 40_000 + "y"
    async with open_chat(calls(("pay", {"to": name})), approvals=[PAY]) as chat:
        await chat.respond("Go", conversation="c", on_question=person)

    assert name in person.asked[0].message


async def test_a_tool_that_needs_approval_anyway_is_asked_about_once(open_chat, desk):
    @tool(approve=True)
    def send(text: str) -> str:
        """Send a text."""
        desk.done.append(text)
        return "sent"

    person = Person()
    async with open_chat(calls(("send", {"text": "hi"})), approvals=[{}], tools=[send]) as chat:
        await chat.respond("Go", conversation="c", on_question=person)

    assert len(person.asked) == 1
    assert desk.done == ["hi"]


async def test_an_expired_question_refuses_the_call_and_the_model_reads_why(open_chat, desk, tmp_path):
    async with open_chat(pays(5), approvals=[{**PAY, "expires": "2h"}]) as chat:
        turn = await suspended(chat)
        asked, until = (datetime.fromisoformat(at) for at in (turn.pending[0].asked_at, turn.pending[0].expires_at))
        assert timedelta(hours=2) <= until - asked < timedelta(hours=2, minutes=1)
        with sqlite3.connect(tmp_path / "kept.db") as database:
            database.execute("UPDATE questions SET expires_at = '2020-01-01T00:00:00.000+00:00'")
        database.close()
        assert await chat.journal.expire_questions() == 1
        (handle,) = await chat.resume_interrupted()
        turn = await handle.result()

    assert results_of(turn)[0].hint == "there was no reply until 2020-01-01T00:00:00.000+00:00"
    assert desk.done == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scope", "again"),
    [
        ("conversation", {"same": 1, "other conversation": 2, "other tenant": 2, "other arguments": 2}),
        ("always", {"same": 1, "other conversation": 1, "other tenant": 2, "other arguments": 2}),
        ("", {"same": 2, "other conversation": 2, "other tenant": 2, "other arguments": 2}),
    ],
)
async def test_a_remembered_yes_counts_again_in_its_scope(open_chat, desk, scope, again):
    options = {
        "same": {"conversation": "c"},
        "other conversation": {"conversation": "d"},
        "other tenant": {"conversation": "c", "tenant": "acme"},
        "other arguments": {"conversation": "c"},
    }
    asked = {}
    for case, how in options.items():
        person = Person(Reply(action="accept", remember=scope))
        conversation = f"{case} {how['conversation']}" if case == "other conversation" else how["conversation"] + case
        first = {"conversation": "c" + case}
        second = {**how, "conversation": conversation}
        amounts = (pays(5), pays(6)) if case == "other arguments" else (pays(5), pays(5))
        async with open_chat(amounts[0], approvals=[PAY]) as chat:
            await chat.respond("Go", on_question=person, **first)
            journal = chat.journal
            rows = await journal.questions(tenant="default", remembered="")
        async with open_chat(amounts[1], approvals=[PAY]) as chat:
            await chat.respond("Go", on_question=person, **second)
            for row in rows:
                await chat.revoke(row.id)
        asked[case] = len(person.asked)

    assert asked == again


async def test_a_revoked_yes_counts_no_more(open_chat, desk):
    person = Person(Reply(action="accept", remember="always"))
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        await chat.respond("Go", conversation="c", on_question=person)
        (row,) = await chat.pending(states=["replied"], remembered="")
        assert not (await chat.revoke(row.id)).remembered
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        await suspended(chat)


async def test_a_remembered_yes_is_noted_with_who_gave_it(open_chat, desk):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        await answered(chat, turn.pending[0], Reply(action="accept", remember="always"))
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await chat.respond("Go", conversation="d")

    assert results_of(turn)[0].notes[0].startswith("approved: ann has approved such calls at 20")
    assert desk.done == [("pay", 5, "ann"), ("pay", 5, "ann")]


async def test_a_yes_with_other_arguments_is_not_remembered_for_the_first_ones(open_chat, desk):
    async with open_chat(pays(500), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        edited = Reply(action="accept", content={"arguments": {"amount": 5}}, remember="always")
        with pytest.raises(InvalidReplyError, match="cannot be remembered before that"):
            await chat.answer(turn.pending[0].id, edited, by="ann")
        turn = await answered(chat, turn.pending[0], attrs.evolve(edited, remember=""))
        await answered(chat, turn.pending[0])
    async with open_chat(pays(500), approvals=[PAY]) as chat:
        await suspended(chat, conversation="d")


async def test_once_asks_once_per_conversation_and_tool(open_chat, desk):
    once, person = {"ask": "once"}, Person()
    async with open_chat(pays(5), pays(6), calls(("look", {})), approvals=[once]) as chat:
        await chat.respond("Go", conversation="c", on_question=person)
    async with open_chat(pays(7), approvals=[once]) as chat:
        await chat.respond("Go", conversation="c", on_question=person)
    assert [question.tool for question in person.asked] == ["pay", "look"]
    async with open_chat(pays(5), approvals=[once]) as chat:
        await suspended(chat, conversation="d")


async def test_a_deleted_conversation_takes_its_approvals_along(open_chat, desk):
    once, person = {"ask": "once"}, Person()
    async with open_chat(pays(5), approvals=[once]) as chat:
        await chat.respond("Go", conversation="c", on_question=person)
        await chat.conversations.delete("c")
    async with open_chat(pays(5), approvals=[once]) as chat:
        await suspended(chat)


async def test_after_a_no_once_asks_again(open_chat, desk):
    once, person = {"ask": "once"}, Person(NO)
    async with open_chat(pays(5), pays(6), approvals=[once]) as chat:
        await chat.respond("Go", conversation="c", on_question=person)

    assert len(person.asked) == 2
    assert desk.done == []


async def test_other_arguments_for_a_call_count_before_a_yes_to_another(open_chat, desk):
    async with open_chat(pays(5, 6), approvals=[{"ask": "once"}]) as chat:
        turn = await suspended(chat)
        by_amount = {each.question.details["arguments"]["amount"]: each for each in turn.pending}
        await answered(chat, by_amount[5], edit(amount=1))
        turn = await answered(chat, by_amount[6])
        while turn.pending:
            turn = await answered(chat, turn.pending[0])

    assert sorted(desk.done) == [("pay", 1, "ann"), ("pay", 6, "ann")]


class Doubles:
    """A step of another plugin that changes what was approved."""

    name, stage = "doubles", "reserve"

    @hookimpl
    def flexchat_register_steps(self):
        yield self

    async def __call__(self, call, rest):
        amount = call.arguments["amount"]
        return await (rest() if amount > 5 else call.again({"amount": 2 * amount}))


async def test_arguments_that_a_step_changes_need_an_approval_of_their_own(open_chat, desk):
    person = Person()
    async with open_chat(pays(5), approvals=[PAY], hooks=[Doubles()]) as chat:
        await chat.respond("Go", conversation="c", on_question=person)

    assert [question.details["arguments"]["amount"] for question in person.asked] == [5, 10]
    assert desk.done == [("pay", 10, "ann")]


async def test_an_approval_under_another_policy_does_not_count(open_chat, desk):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        await chat.answer(turn.pending[0].id, YES, by="ann", resume=False)
    async with open_chat(approvals=[{**PAY, "expires": "1h"}]) as chat:
        turn = await chat.resume(turn.id)
        assert turn.status == "suspended"
        assert desk.done == []
        await answered(chat, turn.pending[0])

    assert desk.done == [("pay", 5, "ann")]


async def test_an_approval_of_another_definition_of_the_tool_does_not_count(open_chat, desk):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        await chat.answer(turn.pending[0].id, YES, by="ann", resume=False)
    pay = attrs.evolve(desk.tools[0].definition, description="Pay twice.")
    async with open_chat(approvals=[PAY], tools=[pay]) as chat:
        turn = await chat.resume(turn.id)

    assert turn.status == "suspended"
    assert desk.done == []


async def test_a_yes_for_another_definition_or_policy_is_not_remembered(open_chat, desk):
    person = Person(Reply(action="accept", remember="always"))
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        await chat.respond("Go", conversation="c", on_question=person)
    pay = attrs.evolve(desk.tools[0].definition, description="Pay twice.")
    async with open_chat(pays(5), approvals=[PAY], tools=[pay]) as chat:
        await suspended(chat, conversation="d")
    async with open_chat(pays(5), approvals=[{"tools": ["pay", "look"]}]) as chat:
        await suspended(chat, conversation="e")


@pytest.mark.parametrize("approvals", [[{"tools": ["look"]}], [{**PAY, "ask": "never"}], [{**PAY, "expires": "1h"}]])
async def test_a_no_stands_when_the_policy_has_changed(open_chat, desk, approvals):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        await chat.answer(turn.pending[0].id, Reply(action="decline", why="no"), by="ann", resume=False)
    async with open_chat(approvals=approvals) as chat:
        turn = await chat.resume(turn.id)

    assert results_of(turn)[0].error == "Not executed: rejected by ann: no"
    assert desk.done == []


async def test_a_no_stands_when_such_calls_are_approved_elsewhere(open_chat, desk):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        await chat.answer(turn.pending[0].id, NO, by="ann", resume=False)
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        await chat.respond("Go", conversation="d", on_question=Person(Reply(action="accept", remember="always")))
        turn = await chat.resume(turn.id)

    assert results_of(turn)[0].error == "Not executed: rejected by ann"


async def test_an_edit_stands_when_there_is_no_policy_any_more(open_chat, desk):
    async with open_chat(pays(500), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        await chat.answer(turn.pending[0].id, edit(amount=50), by="ann", resume=False)
    async with open_chat(approvals=[{"tools": ["look"]}]) as chat:
        turn = await chat.resume(turn.id)

    assert desk.done == [("pay", 50, "ann")]


WITHOUT_POLICY = pytest.mark.parametrize("approvals", [None, [{"tools": ["look"]}], [{**PAY, "ask": "never"}]])


@pytest.mark.slow
@WITHOUT_POLICY
@pytest.mark.parametrize("reply", [YES, Reply(action="accept", content={"note": "fine"}), edit(amount=5)])
async def test_without_the_policy_a_call_with_an_approval_runs(open_chat, desk, approvals, reply):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        await chat.answer(turn.pending[0].id, reply, by="ann", resume=False)
    async with open_chat(approvals=approvals) as chat:
        await chat.resume(turn.id)

    assert desk.done == [("pay", 5, "ann")]


@WITHOUT_POLICY
async def test_without_the_policy_a_call_that_was_rejected_does_not_run(open_chat, desk, approvals):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        await chat.answer(turn.pending[0].id, Reply(action="decline", why="no"), by="ann", resume=False)
    async with open_chat(approvals=approvals) as chat:
        turn = await chat.resume(turn.id)

    assert (turn.status, desk.done) == ("done", [])
    assert "no" in results_of(turn)[0].explained()


@WITHOUT_POLICY
async def test_without_the_policy_a_call_waits_for_the_reply_to_its_question(open_chat, desk, approvals):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        first = await suspended(chat)
    async with open_chat(approvals=approvals) as chat:
        turn = await chat.resume(first.id)
        assert (turn.status, desk.done) == ("suspended", [])
        assert [each.id for each in turn.pending] == [first.pending[0].id]
        await answered(chat, turn.pending[0])

    assert desk.done == [("pay", 5, "ann")]


async def test_without_policies_changed_arguments_do_not_run_and_nor_do_the_old_ones(open_chat, desk):
    async with open_chat(pays(500), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        await chat.answer(turn.pending[0].id, edit(amount=50), by="ann", resume=False)
    async with open_chat(approvals=None) as chat:
        turn = await chat.resume(turn.id)

    assert "no plugin applies that" in results_of(turn)[0].error
    assert desk.done == []


async def test_without_policies_a_question_about_changed_arguments_does_not_stand_for_the_old_ones(open_chat, desk):
    async with open_chat(pays(500), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        turn = await answered(chat, turn.pending[0], edit(amount=50))
        await chat.answer(turn.pending[0].id, YES, by="ann", resume=False)
    async with open_chat(approvals=None) as chat:
        turn = await chat.resume(turn.id)

    assert "with other arguments" in results_of(turn)[0].error
    assert desk.done == []


async def test_an_expired_question_does_not_let_its_call_run_without_the_policy(open_chat, desk, tmp_path):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await suspended(chat)
    past = (datetime.now().astimezone() - timedelta(days=1)).isoformat(timespec="milliseconds")
    with sqlite3.connect(tmp_path / "kept.db") as database:
        database.execute("UPDATE questions SET expires_at = ?", (past,))
    async with open_chat(approvals=None) as chat:
        turn = await chat.resume(turn.id)

    assert "there was no reply until" in results_of(turn)[0].explained()
    assert desk.done == []


async def test_a_question_is_withdrawn_when_another_takes_its_place(open_chat, desk):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        first = await suspended(chat)
    async with open_chat(approvals=[{**PAY, "expires": "1h"}]) as chat:
        turn = await chat.resume(first.id)
        assert [each.id for each in await chat.pending()] == [turn.pending[0].id]
        assert (await chat.question(first.pending[0].id)).state == "withdrawn"
        with pytest.raises(ClosedQuestionError):
            await chat.answer(first.pending[0].id, YES)
        await answered(chat, turn.pending[0])

    assert desk.done == [("pay", 5, "ann")]


async def test_a_name_of_a_policy_may_change(open_chat, desk):
    async with open_chat(pays(5), approvals=[PAY]) as chat:
        turn = await suspended(chat)
        await chat.answer(turn.pending[0].id, YES, by="ann", resume=False)
    async with open_chat(approvals=[{**PAY, "name": "payments"}]) as chat:
        turn = await chat.resume(turn.id)

    assert turn.status == "done"
    assert desk.done == [("pay", 5, "ann")]


async def test_patterns_find_a_tool_by_source_and_by_the_name_that_models_are_shown(open_chat, desk):
    refund = attrs.evolve(desk.tools[0].definition, name="refund.now", source="billing")
    for pattern in ("billing/*", "billing/refund.now", "refund.*", "refund_now", "billing/refund_now"):
        async with open_chat(calls(("refund_now", {})), approvals=[{"tools": [pattern]}], tools=[refund]) as chat:
            turn = await suspended(chat, conversation=pattern)
            assert turn.pending[0].question.message == "Run billing/refund.now without arguments?"
            assert not (await chat.call_tool("refund.now", {})).success

    assert desk.done == []


async def test_a_chat_without_policies_has_no_step(open_chat):
    async with open_chat() as chat:
        assert "approvals" in [getattr(step, "step", step).name for step in chat.tools.calls.steps]
    config = {"llms": {"bot": {"provider": "scripted"}}, "responses": [{"llm": "bot", "model": "m"}]}
    async with FlexChat.from_config(config) as chat:
        assert "approvals" not in [getattr(step, "step", step).name for step in chat.tools.calls.steps]


async def test_a_no_stands_in_a_turn_that_was_not_suspended_yet(open_chat, desk):
    """Its calls run again at once, in the same process."""
    may_end = asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        await may_end.wait()
        return "waited"

    first = open_chat(calls(("pay", {"amount": 5}), ("wait", {})), approvals=[PAY], tools=[*desk.tools, wait])
    async with first, open_chat(pays(5), approvals=[PAY]) as second:
        turn = first.start("Go", conversation="c")
        async for _, event in turn.events():
            if isinstance(event, QuestionAsked):
                break
        await second.respond("Go", conversation="d", on_question=Person(Reply(action="accept", remember="always")))
        await second.answer(event.question.id, Reply(action="decline", why="no"), by="ann")
        may_end.set()
        turn = await turn.result()

    assert results_of(turn)[0].error == "Not executed: rejected by ann: no"
    assert desk.done == [("pay", 5, "ann")]
