"""Processes that answer, suspend, acquire and claim the same rows of a SQLite file at once, while some are killed."""

import asyncio
import json
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from flexchat.conversations.effect_rows import now_text
from flexchat.domain import EffectCall
from flexchat.domain.journal import JournaledTurn, JournalEntry
from flexchat.domain.questions import Approval, PendingQuestion, Question, Reply
from flexchat.errors import ClosedQuestionError, LostTurnError, TurnNotWaitingError
from flexchat_sqlite.conversations import SqliteConversations

pytestmark = pytest.mark.slow
MANY = 40
FAR = "2999-01-01T00:00:00.000+00:00"


async def _race(store, name, report):
    """Do everything once to each of MANY turns, in an order of its own, and report what succeeded."""
    journal, ledger = store.journal, store.ledger()
    doing = [(what, n) for what in ("answer", "suspend", "acquire", "claim", "use") for n in range(MANY)]
    random.shuffle(doing)
    for what, n in doing:
        id, by = f"{n:02}", f"{name} {what}"
        turn = JournaledTurn(id=id, tenant="t", conversation=id, state="running", owner="one")
        approval = Approval(f"q{id}", f"d{id}")
        try:
            if what == "answer":
                await journal.answer(f"q{id}", tenant="t", reply=Reply(action="accept"), by=by)
                report(what, id, by)
            elif what == "suspend" and await journal.suspend(turn, [JournalEntry(number=2, kind="request", data={})]):
                report(what, id)
            elif what == "acquire":
                taken = await journal.acquire(id, tenant="t", owner=name, lease_s=600)
                report(what, id, taken.fence)
            elif what == "use" and await journal.use_approval(approval, tenant="t", by=by):
                report("use", id, by)
            elif what == "claim":
                key = f"{name}{id}".ljust(64, "0")
                values = {"conversation": id, "turn": id, "place": "1", "tool": "pay", "digest": "d"}
                call = EffectCall(key=key, tenant="t", **values)
                claim = await ledger.claim(call, owner=name, lease_s=600, approval=approval)
                if claim.outcome == "yours":
                    report("use", id, key)
        except (ClosedQuestionError, LostTurnError, TurnNotWaitingError):
            continue


def run(path, name):
    """Race in this process, twice at once, through two connections; print each success once it is acknowledged."""

    async def race():
        stores = [SqliteConversations(path) for _ in range(2)]

        def report(*facts):
            print(json.dumps(facts), flush=True)

        await asyncio.gather(*(_race(store, f"{name}{n}", report) for n, store in enumerate(stores)))
        for store in stores:
            await store.aclose()

    asyncio.run(race())


def racing(path, name):
    code = f"import test_races; test_races.run({str(path)!r}, {name!r})"
    folder = Path(__file__).parent
    return subprocess.Popen([sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kills", [False, True])
async def test_no_reply_is_lost_and_no_approval_is_used_twice(tmp_path, kills):
    path = tmp_path / "c.db"
    store = SqliteConversations(path)
    journal = store.journal
    for n in range(MANY):
        id = f"{n:02}"
        turn = JournaledTurn(id=id, tenant="t", conversation=id, state="running", owner="one")
        question = Question(message="Pay?", id=f"q{id}", digest=f"d{id}")
        asked = PendingQuestion(
            question=question, tenant="t", conversation=id, turn=id, asked_at=now_text(), expires_at=FAR
        )
        await journal.write(turn, [JournalEntry(number=1, kind="started", data={})], lease_s=600, questions=[asked])

    processes = [racing(path, name) for name in "abc"]
    if kills:
        for _ in range(20):
            processes[0].stdout.readline()
        processes[0].send_signal(signal.SIGKILL)
    outputs = await asyncio.gather(*(asyncio.to_thread(process.communicate) for process in processes))
    assert processes[0].returncode in ((0, -signal.SIGKILL) if kills else (0,))  # it may have been faster
    assert [process.returncode for process in processes[1:]] == [0, 0]
    reports = [json.loads(line) for output, _ in outputs for line in output.splitlines() if line.endswith("]")]

    questions = {question.id[1:]: question for question in await journal.questions(tenant="t", limit=MANY)}
    assert {question.state for question in questions.values()} == {"replied"}
    assert {what for what, *_ in reports} == {"answer", "suspend", "acquire", "use"}
    for what, id, *facts in reports:
        if what == "answer":
            assert questions[id].replied_by == facts[0]
        elif what == "use":
            assert questions[id].used_by == facts[0]
    assert max(Counter(map(str, reports)).values()) == 1, "a success was reported twice"
    assert not await journal.list(tenant="t", states=["suspended"], limit=MANY)
    await store.aclose()
