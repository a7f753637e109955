"""The page Activity, in a real browser."""

import asyncio
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen

import pytest
from flexchat_sqlite.conversations import SqliteConversations
from playwright.sync_api import expect
from web_browser import NARROW, accessible, fits
from web_leftovers import answered, leave_effect, leave_turn

pytestmark = pytest.mark.slow

CONFIG = """
[llms.one]
provider = "rehearsal"
default_model = "rehearsal"

[[responses]]
llm = "one"
name = "desk"
tools = { enabled = true }

[[tools.registry]]
name = "pay"
description = "Pay an amount."
effect = "write"
timeout_ms = 100
parameters = { type = "object", properties = { amount = { type = "integer" } }, required = ["amount"] }
implementation = { type = "mock", delay_ms = 20000, mock_response = { receipt = 118 } }
"""
WAITING = "#navigation [data-key=activity]"
NASTY = "<img src=x onerror=document.title='bad'><b>bold</b> "
PAID = {"success": True, "tool_name": "pay", "result": {"receipt": 118}}
CALL = {"tool": "pay", "params": {"amount": 5}, "iteration": 1, "call_id": "call_0", "result": PAID}
TOPIC = {"phase": "topic detection", "elapsed_ms": 310.2, "outcome": {"topic": "tea", "status": "new_topic"}}
RULE = {"rule": 0, "name": "desk", "match": {}, "llm": "one"}
STEPS = (
    ("phase", {"record": TOPIC, "topic": "tea", "status": "new_topic"}),
    ("rule", {"index": 0, "outcome": RULE, "tools": ["pay"]}),
    ("request", {"llm": "one", "model": "r1", "messages": 3}),
    answered(("pay", {"amount": 5}), text="I pay first.", llm="one"),
    ("tool", {"iteration": 1, "index": 0, "record": CALL, "wrote": True}),
    ("resumed", {}),
    answered(text=NASTY * 2000, llm="one"),
)


@pytest.fixture
def left(serve, tmp_path):
    """Start a server where somebody died: left(async def of the store, which leaves something) -> the server."""

    def start(leave):
        path = tmp_path / "conversations.db"

        async def work():
            store = SqliteConversations(path)
            await leave(store)
            await store.aclose()

        with ThreadPoolExecutor() as threads:  # the browser keeps this thread's loop
            threads.submit(asyncio.run, work()).result()
        return serve(f'{CONFIG}\n[conversations]\npath = "{path}"\n', "--no-resume")

    return start


def ask(server, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(server.url + path, data, {"content-type": "application/json"})) as answer:
        return json.load(answer)


def test_what_nobody_knows_is_settled_once(visit, left):
    """The navigation says how much waits; a double click asks and settles once; another may have been faster."""

    async def leave(store):
        await leave_effect(store.ledger(), arguments={"amount": 5}, place="0.0", turn="")
        await leave_effect(store.ledger(), arguments={"amount": 6}, place="1.0", turn="")
        await leave_effect(store.ledger(), NASTY, {NASTY: NASTY * 2000}, place="2.0", why=NASTY)

    server = left(leave)
    page = visit(server.url + "#/tools")
    sent = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    activity = page.locator(WAITING)
    expect(activity).to_have_text("Activity3 waiting")
    activity.click()
    cards = page.locator(".waits")
    expect(cards).to_have_count(3)
    expect(cards.nth(0)).to_contain_text(f"Did {NASTY.strip()} happen?")
    expect(cards.nth(1)).to_contain_text("Look at the service behind pay (“Pay an amount.”)")
    expect(cards.nth(1)).to_contain_text("the process that ran it has died")
    assert page.title() == "Activity · FlexChat"
    accessible(page)
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    fits(page)

    happened = cards.nth(1).get_by_role("button", name="It happened")
    happened.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="It happened?")
    expect(dialog).to_contain_text("pay(amount: 6)")
    page.keyboard.press("Escape")
    expect(happened).to_be_focused()
    happened.dblclick()
    assert not sent
    dialog.get_by_label("How do you know?").fill("receipt 118")
    accessible(page)
    fits(page)
    dialog.get_by_role("button", name="It happened").dblclick(timeout=5000)
    expect(cards).to_have_count(2)
    expect(activity).to_have_text("Activity2 waiting")
    expect(page.get_by_role("heading", name="Waiting for you")).to_be_focused()
    (settled,) = ask(server, "api/effects?state=done")["effects"]
    assert (settled["arguments"], settled["settled_by"], settled["note"]) == ('{"amount": 6}', "web", "receipt 118")
    assert len(sent) == 1

    (other,) = [one for one in ask(server, "api/effects?state=unknown")["effects"] if one["tool"] == "pay"]
    ask(server, f"api/effects/{other['key']}/settle", {"state": "done"})
    cards.nth(1).get_by_role("button", name="It did not happen").click()
    page.get_by_role("dialog").get_by_role("button", name="It did not happen").click()
    expect(page.get_by_text("settled by web")).to_be_visible()
    expect(cards).to_have_count(1)
    assert ask(server, f"api/effects/{other['key']}")["state"] == "done"


def test_an_interrupted_turn_is_read_and_ended(visit, left):
    """Why it waits, its steps with times and tokens, and its conversation once it has ended."""
    ids = []

    async def leave(store):
        ids.append(await leave_turn(store.journal, steps=STEPS))
        ids.append(await leave_turn(store.journal, NASTY * 1000, conversation="d"))

    server = left(leave)
    with sqlite3.connect(server.config.parent.parent / "conversations.db") as database:
        error = "the rule 'desk' is gone from the configuration"
        database.execute("UPDATE journal_turns SET error = ? WHERE id = ?", (error, ids[1]))
    page = visit(server.url + "#/activity")
    cards = page.locator(".waits")
    expect(cards).to_have_count(2)
    expect(cards.nth(0)).to_contain_text("cannot go on: the rule 'desk' is gone from the configuration.")
    expect(cards.nth(1)).to_contain_text("The process that ran it ended before the turn did.")
    accessible(page)
    cards.nth(1).get_by_role("link", name="Steps").click()
    steps = page.locator(".steps > li")
    expect(steps).to_have_count(9)
    expect(steps.nth(0)).to_contain_text("Pay for the tea")
    expect(steps.nth(1)).to_contain_text("Topic detection310 ms")
    expect(steps.nth(2)).to_contain_text("Rule 1 “desk” answers")
    expect(steps.nth(4)).to_contain_text("one / r1 calls pay")
    expect(steps.nth(4)).to_contain_text("120 tokens read, 18 written.")
    expect(steps.nth(5)).to_contain_text("succeeded")
    expect(steps.nth(7)).to_contain_text(NASTY)
    expect(steps.nth(8)).to_contain_text("Here its process ended")
    accessible(page)
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    fits(page)
    page.get_by_role("button", name="Cancel the turn").click()
    page.get_by_role("dialog").get_by_role("button", name="Keep it").click()
    assert ask(server, f"api/turns/{ids[0]}")["state"] == "interrupted"
    page.get_by_role("button", name="Cancel the turn").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the turn").click()
    expect(page.get_by_role("heading", name="The turn was cancelled", exact=True)).to_be_visible()
    expect(page.locator(WAITING)).to_have_text("Activity1 waiting")
    page.get_by_role("link", name="Open the conversation").click()
    expect(page.locator(".asked")).to_contain_text("Pay for the tea")
    page.go_back()
    page.get_by_role("link", name="All activity").click()
    page.get_by_text("Turns", exact=True).click()
    page.get_by_label("State").select_option("cancelled")
    expect(page.locator(".activity-row")).to_have_count(1)
    assert page.title() == "Activity · FlexChat"


def test_an_interrupted_turn_is_resumed(visit, left):
    """By a click; one that cannot go on says why, and stays."""

    async def leave(store):
        gone = ("rule", {"index": 0, "outcome": {**RULE, "name": "gone"}, "tools": []})
        await leave_turn(store.journal, "Goes on")
        await leave_turn(store.journal, "Cannot", conversation="d", steps=[gone])

    server = left(leave)
    page = visit(server.url + "#/activity")
    cards = page.locator(".waits")
    expect(cards).to_have_count(2)
    cards.nth(0).get_by_role("button", name="Resume").click()
    expect(cards.nth(0)).to_contain_text("cannot go on")
    cards.nth(1).get_by_role("button", name="Resume").dblclick()
    expect(cards).to_have_count(1)
    expect(page.locator(WAITING)).to_have_text("Activity1 waiting")
    page.get_by_text("Turns", exact=True).click()
    page.get_by_label("State").select_option("done")
    expect(page.locator(".activity-row")).to_have_count(1)
    expect(page.locator(".activity-row")).to_contain_text("Goes on")


def test_lists_are_filtered_and_paged(visit, left):
    async def leave(store):
        for place in range(30):
            key = await leave_effect(store.ledger(), arguments={"amount": place}, place=f"{place}.0", turn="")
            if place:
                await store.ledger().finish(key, 1, state="done", result=None)

    page = visit(left(leave).url + "#/activity", size=NARROW, theme="dark")
    rows = page.locator(".activity-row")
    expect(rows).to_have_count(25)
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(30)
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    fits(page)
    accessible(page)
    page.get_by_label("State").select_option("unknown")
    expect(rows).to_have_count(1)
    page.get_by_label("State").select_option("failed")
    expect(page.get_by_text("None is in this state.")).to_be_visible()
    page.get_by_label("State").select_option("done")
    rows.first.click()
    expect(page.locator(".page")).to_contain_text("happened")
    expect(page.locator(".page")).to_contain_text("by hand")
    fits(page)
    page.get_by_role("link", name="All activity").click()
    expect(page.get_by_role("combobox", name="State")).to_have_value("done")


def test_chat_leads_to_what_is_unknown(visit, serve):
    """Without kept conversations: the page says so, and still shows what is in memory."""
    page = visit(serve(CONFIG).url)
    page.get_by_label("Message", exact=True).fill("Please pay 7")
    page.keyboard.press("Enter")
    call = page.locator(".tool-call")
    expect(call.locator("summary")).to_contain_text("unknown")
    activity = page.locator(WAITING)
    expect(activity).to_have_text("Activity1 waiting")
    accessible(page)
    call.get_by_role("link", name="Say whether it happened").click()
    expect(page.get_by_text("Nobody knows whether it happened")).to_be_visible()
    accessible(page)
    page.get_by_role("button", name="It did not happen").click()
    page.get_by_role("dialog").get_by_role("button", name="It did not happen").click()
    expect(page.locator(".page")).to_contain_text("(said by web)")
    expect(activity).to_have_text("Activity")
    page.get_by_role("link", name="All activity").click()
    expect(page.get_by_text("This server keeps no conversations")).to_be_visible()
    expect(page.get_by_text("Effects are kept in memory")).to_be_visible()
    expect(page.get_by_text("Nothing does.")).to_be_visible()
    expect(page.locator(".activity-row")).to_contain_text("did not happen")
    page.evaluate("location.hash = '#/activity/effects/none'")
    expect(page.get_by_role("heading", name="This effect is not kept")).to_be_visible()
    page.evaluate("location.hash = '#/activity/turns/none'")
    expect(page.get_by_role("heading", name="This turn is not kept")).to_be_visible()
