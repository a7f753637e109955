"""flexchat approvals …: lists, replies, and the turns that go on with them."""

import asyncio
import json
import os
import sys

import attrs
import pytest
from flexchat import FlexChat, Reply
from flexchat_cli.main import main

CONFIG = """
[llms.bot]
provider = "scripted"
replies = [{{ tool_calls = [{calls}] }}, {{ text = "Done." }}]

[[tools.registry]]
name = "pay"
description = "Pay an amount."
asks_first = true
parameters = {{ type = "object", properties = {{ amount = {{ type = "number" }}, to = {{ type = "string" }} }} }}
implementation = {{ type = "python", function = "{module}:pay" }}

[[responses]]
llm = "bot"
model = "m"
tools = {{ enabled = true }}

[conversations]
path = "kept.db"

[questions]
expires = "7d"

[[approvals]]
name = "payments"
tools = ["pay"]
{more}
"""


@attrs.frozen
class Ran:
    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@attrs.define
class Shop:
    """A config whose tool writes down what it pays."""

    folder: object
    module: str
    turn: object = None

    @property
    def paid(self):
        path = self.folder / "paid.txt"
        return path.read_text().splitlines() if path.exists() else []

    def begin(self, *amounts, tenant="default", conversation="c", to=None, more=""):
        """Suspend a turn that asks whether these amounts may be paid."""
        rest = f", to = {json.dumps(to)}" if to is not None else ""
        calls = ", ".join(f'{{ name = "pay", arguments = {{ amount = {amount}{rest} }} }}' for amount in amounts)
        path = self.folder / "flexchat.toml"
        path.write_text(CONFIG.format(calls=calls, module=self.module, more=more))

        async def begin():
            async with FlexChat.from_config(path) as chat:
                return await chat.respond("Go", conversation=conversation, tenant=tenant)

        self.turn = asyncio.run(begin())
        assert self.turn.status == "suspended"
        # The model's second answer is the first one of the process that goes on.
        path.write_text(path.read_text().replace(f"{{ tool_calls = [{calls}] }}, ", ""))
        return [pending.id for pending in self.turn.pending]


@pytest.fixture
def shop(tmp_path, monkeypatch):
    module = f"desk_{os.urandom(4).hex()}"
    (tmp_path / f"{module}.py").write_text(
        f'def pay(amount, to="ann"):\n    with open({str(tmp_path / "paid.txt")!r}, "a") as paid:\n'
        '        paid.write(f"{amount:g} to {to}\\n")\n    return "paid"\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LOGNAME", "ann")
    monkeypatch.setenv("NO_COLOR", "1")
    yield Shop(tmp_path, module)
    sys.modules.pop(module, None)


@pytest.fixture
def run(capsys):
    def start(*words):
        status = main(["approvals", *words])
        written = capsys.readouterr()
        return Ran(status, written.out, written.err)

    return start


def test_open_questions_are_listed_with_all_arguments(run, shop):
    (id,) = shop.begin(5, to="x" * 3000 + "\u202ey")

    ran = run("list")

    assert ran.status == 0
    assert id[:13] in ran.out
    assert "payments" in ran.out
    assert f'Run pay with {{"amount": 5, "to": "{"x" * 3000}\\u202ey"}}?' in ran.out
    assert "flexchat approvals approve ID" in ran.err


def test_without_questions_the_list_is_empty(run, shop):
    shop.begin(5)
    run("reject", shop.turn.pending[0].id)

    assert run("list").err == "no question waits for a reply\n"
    assert "rejected by ann" in run("list", "--all").out
    assert run("list", "--json").json == []


def test_a_question_is_shown_in_full(run, shop):
    (id,) = shop.begin(5, to="a\u202eb")

    ran = run("show", id[:10])

    assert ran.status == 0
    for line in (f"id:           {id}", "state:        open", "policy:       payments", "effect:       write"):
        assert line in ran.out
    assert '    "to": "a\\u202eb"' in ran.out
    assert run("show", id, "--json").json["question"]["details"]["arguments"] == {"amount": 5, "to": "a\u202eb"}


def test_an_approved_call_runs_and_the_answer_is_printed(run, shop):
    (id,) = shop.begin(5)

    ran = run("approve", id[:13], "--note", "checked")

    assert (ran.status, ran.out) == (0, "Done.\n")
    assert f"{id[:13]} is approved" in ran.err
    assert shop.paid == ["5 to ann"]
    shown = run("show", id)
    assert "state:        approved by ann" in shown.out
    assert '"note": "checked"' in shown.out


def test_a_rejected_call_does_not_run(run, shop):
    (id,) = shop.begin(5)

    ran = run("reject", id, "--reason", "too much")

    assert (ran.status, ran.out) == (0, "Done.\n")
    assert "Not executed: rejected by ann: too much" in ran.err
    assert shop.paid == []


def test_an_edited_call_is_asked_about_again(run, shop):
    (id,) = shop.begin(500)

    ran = run("approve", id, "--edit", '{"amount": 50}')
    assert ran.status == 3
    assert f"{id[:13]} is edited" in ran.err
    assert 'its turn waits for another reply: Run pay with {"amount": 50}?' in ran.err
    assert shop.paid == []

    (again,) = run("list", "--json").json
    assert run("approve", again["id"]).out == "Done.\n"
    assert shop.paid == ["50 to ann"]


SEATS = """
from flexchat import ToolContext

async def pay(amount: float, context: ToolContext, to: str = "ann"):
    form = {"properties": {"seat": {"enum": ["window", "aisle"]}}, "required": ["seat"]}
    reply = await context.ask("Which seat?", form)
    return reply.content["seat"]
"""


def test_a_question_that_is_no_approval_is_answered(run, shop):
    """It is shown with the form that its answer must fit."""
    (shop.folder / f"{shop.module}.py").write_text(SEATS)
    (id,) = shop.begin(5, more='ask = "never"')
    shown, edited = run("show", id), run("approve", id, "--edit", '{"seat": "window"}')
    roof, ran = run("approve", id, "--answer", '{"seat": "roof"}'), run("approve", id, "--answer", '{"seat": "aisle"}')

    assert "--answer:" in shown.out
    assert '"aisle"' in shown.out
    assert (edited.status, edited.err.count("\n")) == (2, 1)
    assert f"{id[:13]} is no approval" in edited.err
    assert (roof.status, "seat must be one of: window, aisle" in roof.err) == (2, True)
    assert (ran.status, ran.out, ran.err) == (0, "Done.\n", f"{id[:13]} is answered\n")
    assert "answered by ann" in run("list", "--all").out


def test_the_other_calls_of_a_turn_still_wait(run, shop):
    first, second = shop.begin(5, 6)

    assert "its turn waits for another reply" in run("approve", first).err
    assert run("reject", second).out == "Done.\n"
    assert len(shop.paid) == 1


def test_another_process_may_go_on(run, shop):
    (id,) = shop.begin(5)

    ran = run("approve", id, "--no-wait")

    assert (ran.status, ran.out) == (0, "")
    assert shop.paid == []
    assert main(["turns", "resume", shop.turn.id]) == 0
    assert shop.paid == ["5 to ann"]


def test_the_outcome_can_be_had_as_json(run, shop):
    (id,) = shop.begin(5)

    data = run("approve", id, "--json").json

    assert (data["question"]["state"], data["turn"]["status"], data["turn"]["content"]) == ("replied", "done", "Done.")


def test_an_argument_cannot_end_its_line(run, shop):
    """Some characters end a line in Python, and for some terminals."""
    (id,) = shop.begin(5, to="a\u2028b\x85c\x1cd")

    assert '    "to": "a\\u2028b\\u0085c\\u001cd"\n' in run("show", id).out


@pytest.mark.parametrize("scope", ["conversation", "always"])
def test_a_remembered_approval_is_listed_and_revoked(run, shop, scope):
    (id,) = shop.begin(5)
    run("approve", id, "--remember", scope)

    listed = run("rules", "list")
    assert id[:13] in listed.out
    assert 'Run pay with {"amount": 5}?' in listed.out
    assert [row["id"] for row in run("rules", "list", "--json").json] == [id]

    revoked = run("rules", "revoke", id[:13])
    assert (revoked.status, f"{id[:13]} is revoked" in revoked.err) == (0, True)
    assert run("rules", "list").err == "no approval counts again\n"
    assert run("rules", "revoke", id).status == 2
    assert shop.begin(5)


def test_an_approval_that_holds_once_is_listed_by_its_tool(run, shop):
    (id,) = shop.begin(5, more='ask = "once"')
    run("approve", id)

    assert "once per conversation  pay (c)" in run("rules", "list").out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["approve", "call_nothing"], "there is no question 'call_nothing'"),
        (["reject", "call_nothing"], "there is no question 'call_nothing'"),
        (["show", "call_nothing"], "there is no question 'call_nothing'"),
        (["rules", "revoke", "call_nothing"], "there is no question 'call_nothing'"),
        (["approve", "ID", "--tenant", "acme"], "there is no question"),
        (["show", "ID", "--tenant", "acme"], "there is no question"),
        (["approve", "ID", "--edit", "{"], "--edit is no JSON"),
        (["approve", "ID", "--edit", "5"], "--edit must be a JSON object"),
        (["approve", "ID", "--edit", '{"amount": "much"}'], "the reply does not answer the question"),
        (["approve", "ID", "--edit", "{}", "--remember", "always"], "use it alone"),
        (["approve", "ID", "--answer", '{"amount": 5}'], "the reply does not answer the question"),
        (["approve", "ID", "--remember", "forever"], "--remember"),
        (["rules", "revoke", "ID"], "does not count again"),
        (["list", "--limit", "0"], "--limit is at least 1"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(run, shop, words, text):
    (id,) = shop.begin(5)

    ran = run(*(id if word == "ID" else word for word in words))

    assert (ran.status, ran.out) == (2, "")
    assert text in ran.err
    assert ran.err.count("\n") == 1
    assert shop.paid == []


def test_a_second_reply_names_who_was_first(run, shop):
    (id,) = shop.begin(5)
    run("approve", id)

    ran = run("reject", id)

    assert ran.status == 2
    assert "it was answered by ann at 20" in ran.err
    assert shop.paid == ["5 to ann"]


def test_a_reply_can_come_from_elsewhere_meanwhile(run, shop):
    (id,) = shop.begin(5)

    async def reply():
        async with FlexChat.from_config(shop.folder / "flexchat.toml") as chat:
            await chat.answer(id, Reply(action="accept"), by="bob", resume=False)

    asyncio.run(reply())
    assert "it was answered by bob" in run("approve", id).err
    assert main(["turns", "resume", shop.turn.id]) == 0
    assert shop.paid == ["5 to ann"]


def test_a_reply_is_recorded_even_if_its_turn_cannot_go_on(run, shop):
    (id,) = shop.begin(5)
    path = shop.folder / "flexchat.toml"
    path.write_text(path.read_text().replace('name = "pay"', 'name = "send"'))

    ran = run("approve", id)

    assert ran.status == 1
    assert ran.err.startswith(f"{id[:13]} is approved\n")
    assert "pay" in ran.err.splitlines()[1]
    assert run("show", id, "--json").json["state"] == "replied"
    assert shop.paid == []


def test_a_store_without_turns_has_no_questions(run, shop, monkeypatch):
    shop.begin(5)
    monkeypatch.setattr("flexchat_cli.conversation_store", lambda context: Bare())

    ran = run("list")

    assert ran.status == 2
    assert "keeps no journal of turns" in ran.err


class Bare:
    async def aclose(self):
        pass
