"""Calls that need approval, on the page Chat: approved, rejected, changed and remembered, by one person or two."""

import httpx
import pytest
from playwright.sync_api import expect
from web_browser import NARROW, accessible, fits
from web_server import WebServer

pytestmark = pytest.mark.slow

TOOLS = """
from pathlib import Path


def pay(amount: int, to: str):
    with Path("{paid}").open("a") as file:
        file.write(f"{{amount}}\\n")
    return {{"paid": amount}}
"""
CONFIG = """
[llms.main]
provider = "openai"
api_key = "test-key"
base_url = "{url}"
default_model = "m-1"

[[responses]]
llm = "main"
tools = { enabled = true }

[[tools.registry]]
name = "pay"
description = "Pay an amount."
effect = "write"
implementation = { type = "python", function = "shop:pay" }
[tools.registry.parameters]
type = "object"
properties = { amount = { type = "integer" }, to = { type = "string" } }
required = ["amount", "to"]

[[approvals]]
tools = ["pay"]
"""


@pytest.fixture
def shop(tmp_path, chat_server, wire_call):
    """Start servers on one database: shop(live_ms=…): how long they wait for a reply before a turn is suspended."""
    servers = []
    arguments = r'{"amount": 9007199254740993, "to": "Ann\u202e\u200b"}'
    chat_server.replies = [
        {"content": "Paying.", "tool_calls": [wire_call("pay", arguments)]},
        {"content": "Done."},
    ] * 2

    def start(live_ms=60_000):
        folder = tmp_path / f"shop{len(servers)}"
        folder.mkdir()
        (folder / "shop.py").write_text(TOOLS.format(paid=(tmp_path / "paid.txt").as_posix()))
        kept = f'[conversations]\npath = "{(tmp_path / "kept.db").as_posix()}"\n'
        limits = f"[limits]\nquestion_timeout_ms = {live_ms}\n"
        servers.append(WebServer(folder, CONFIG.replace("{url}", chat_server.url) + kept + limits))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def paid(tmp_path):
    """Read the amounts that were paid."""
    file = tmp_path / "paid.txt"
    return lambda: [int(line) for line in file.read_text().split()] if file.exists() else []


def ask(page, text="Pay"):
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")
    return page.get_by_role("region", name="Approval of pay").last


def press(page, button):
    """Press a button as people without a mouse do."""
    button.focus()
    page.keyboard.press("Enter")


@pytest.mark.parametrize(("size", "theme"), [((1280, 900), "light"), (NARROW, "dark")])
def test_an_approval_by_keyboard(visit, shop, paid, size, theme):
    """Nothing in the arguments is hidden or rounded."""
    page = visit(shop(live_ms=1_000).url, size=size, theme=theme)
    card = ask(page)
    arguments = card.get_by_role("group", name="arguments")
    expect(arguments).to_contain_text('"amount": 9007199254740993')
    expect(arguments).to_contain_text(r'"to": "Ann\u202e\u200b"')
    expect(page.locator(".answer-status")).to_contain_text("Suspended")
    accessible(page)
    fits(page)
    card.get_by_role("button", name="Approve").focus()
    page.keyboard.press("Tab")
    expect(card.get_by_role("button", name="Edit")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(card).to_contain_text("Approved by you")
    expect(page.locator(".answer")).to_contain_text("Done.")
    expect(page.get_by_role("link", name="Why this rule?")).to_be_visible()
    expect(card).to_be_visible()
    fits(page)
    assert paid() == [9007199254740993]


def test_a_rejection_with_a_reason(visit, shop, paid):
    page = visit(shop().url)
    card = ask(page)
    press(page, card.get_by_role("button", name="Reject"))
    expect(card.get_by_label("Reason")).to_be_focused()
    accessible(page)
    page.keyboard.type("It is paid.")
    page.keyboard.press("Enter")
    expect(card).to_contain_text("Rejected by you: It is paid.")
    expect(page.locator(".answer")).to_contain_text("Done.")
    page.locator(".tool-call summary").click()
    expect(page.locator(".tool-call")).to_contain_text("It is paid.")
    assert paid() == []


def test_changed_arguments_are_shown_again(visit, shop, paid):
    page = visit(shop().url)
    card = ask(page)
    first = page.get_by_role("region", name="Approval of pay").first
    press(page, card.get_by_role("button", name="Edit"))
    text = card.get_by_label("Arguments, as JSON")
    expect(text).to_be_focused()
    accessible(page)
    for wrong, problem in (("{", "not JSON"), ("[1]", "must be an object")):
        text.fill(wrong)
        press(page, card.get_by_role("button", name="Use these"))
        expect(card.get_by_role("alert")).to_contain_text(problem)
        expect(text).to_be_focused()
    text.fill('{"amount": "much", "to": "Ann"}')
    press(page, card.get_by_role("button", name="Use these"))
    expect(card).to_contain_text("must be an integer")
    text.fill('{"amount": 9007199254740995, "to": "Ann"}')
    press(page, card.get_by_role("button", name="Use these"))

    expect(first).to_contain_text("Changed by you")
    second = page.get_by_role("region", name="Approval of pay").nth(1)
    expect(second).to_contain_text('"amount": 9007199254740995')
    press(page, second.get_by_role("button", name="Approve"))
    expect(page.locator(".answer")).to_contain_text("Done.")
    assert paid() == [9007199254740995]


def test_what_is_remembered_is_not_asked_again(visit, shop, paid):
    page = visit(shop().url)
    card = ask(page)
    choice = card.get_by_label("Approve for")
    choice.focus()
    page.keyboard.press("ArrowDown")
    expect(choice).to_have_value("conversation")
    press(page, card.get_by_role("button", name="Approve"))
    expect(page.locator(".answer").last).to_contain_text("Done.")
    ask(page, "Again")
    expect(page.locator(".answer")).to_have_count(2)
    expect(page.locator(".answer").last).to_contain_text("Done.")
    assert paid() == [9007199254740993] * 2


@pytest.mark.parametrize("live_ms", [60_000, 100])
def test_two_people_see_the_same(visit, shop, paid, live_ms):
    """At two servers of one database; the second decides, and the first one's page goes on."""
    first, second = shop(live_ms), shop(live_ms)
    one = visit(first.url)
    mine = ask(one)
    expect(mine).to_be_visible()
    other = visit(second.url)
    other.get_by_role("link", name="Pay").click()
    theirs = other.get_by_role("region", name="Approval of pay")
    press(other, theirs.get_by_role("button", name="Approve"))
    for page in (one, other):
        expect(page.locator(".answer")).to_contain_text("Done.")
    expect(mine).to_contain_text("Approved by web")
    expect(mine.get_by_role("button", name="Approve")).to_have_count(0)
    assert paid() == [9007199254740993]


def test_who_is_late_reads_that_the_first_reply_counts(visit, shop, paid):
    page = visit(shop(live_ms=100).url)
    card = ask(page)
    expect(page.locator(".answer-status")).to_contain_text("Suspended")

    def be_late(route):
        httpx.post(route.request.url, json={"action": "decline", "reason": "Not today."})
        route.continue_()

    page.route("**/reply", be_late)
    press(page, card.get_by_role("button", name="Approve"))
    expect(card).to_contain_text("by web")
    expect(card.get_by_role("button", name="Approve")).to_have_count(0)
    expect(page.locator(".answer")).to_contain_text("Done.")
    assert paid() == []


def test_a_suspended_turn_is_there_after_a_reload_and_ended_by_the_next_message(visit, shop, paid):
    page = visit(shop(live_ms=100).url)
    card = ask(page)
    expect(page.locator(".answer-status")).to_contain_text("Suspended")
    page.reload()
    expect(card).to_be_visible()
    expect(page.locator(".answer-status")).to_contain_text("Suspended")
    expect(page.locator(".answer")).to_contain_text("Paying.")
    expect(page.get_by_role("img", name="suspended")).to_be_visible()
    ask(page, "Never mind")
    expect(page.locator(".answer").last).to_contain_text("Done.")
    expect(page.locator(".answer").first.get_by_role("button", name="Approve")).to_have_count(0)
    expect(page.locator(".answer")).to_have_count(2)
    assert paid() == []


def test_a_suspended_turn_is_stopped(visit, shop, paid):
    page = visit(shop(live_ms=100).url)
    card = ask(page)
    expect(page.locator(".answer-status")).to_contain_text("Suspended")
    press(page, page.get_by_role("button", name="Stop"))
    expect(page.locator(".answer")).to_contain_text("interrupted before its end")
    expect(card.get_by_role("button", name="Approve")).to_have_count(0)
    assert paid() == []


def test_a_suspended_turn_survives_its_server(visit, shop, paid, tmp_path):
    server = shop(live_ms=100)
    page = visit(server.url)
    ask(page)
    expect(page.locator(".answer-status")).to_contain_text("Suspended")
    server.kill()
    page = visit(shop(live_ms=100).url)
    page.get_by_role("link", name="Pay").click()
    card = page.get_by_role("region", name="Approval of pay")
    press(page, card.get_by_role("button", name="Approve"))
    expect(page.locator(".answer")).to_contain_text("Done.")
    assert paid() == [9007199254740993]
