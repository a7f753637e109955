"""The page Approvals, in a real browser: what waits is approved, rejected, changed and remembered."""

import json
import re
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import expect
from web_browser import NARROW, accessible, fits

pytestmark = pytest.mark.slow

TOOLS = """
from pathlib import Path


def pay(amount: int, to: str):
    with Path("paid.txt").open("a") as file:
        file.write(f"{amount} {to}\\n")
    return {"paid": amount}
"""
CONFIG = """
[llms.main]
provider = "scripted"
default_model = "m"
repeat = true
replies = [
  { tool_calls = [{ name = "pay", arguments = '{"amount": 12345678901234567890, "to": "Ann\\u202e\\u0007"}' }] },
  { text = "Done." },
]

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
additionalProperties = false

[[approvals]]
tools = ["pay"]

[conversations]
provider = "sqlite"
"""
ENDLESS = CONFIG.replace('  { text = "Done." },\n', "")  # the model only calls
COUNT = "#navigation [data-key=approvals] .nav-count"


@pytest.fixture
def shop(serve, tmp_path, monkeypatch):
    """Start the server: shop(more of its configuration, *options)."""
    (tmp_path / "shop.py").write_text(TOOLS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return lambda more="", *options, config=CONFIG: serve(config + more, *options)


def ask(server, path, body=None, *, method=None, token=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    with urlopen(Request(server.url + path, data, headers, method=method)) as answer:
        return json.load(answer)


def suspended(server, conversation="c1", **how):
    """Ask for a payment: the turn is suspended."""
    answer = ask(server, "chat/api", {"prompt": "Pay Ann", "conversation": conversation}, **how)
    assert answer["status"] == "suspended"


def paid(server):
    file = server.config.parent / "paid.txt"
    return file.read_text().splitlines() if file.exists() else []


def approval(page):
    return page.get_by_role("region", name="Approval of pay")


@pytest.mark.parametrize(("size", "theme"), [((1280, 800), "light"), (NARROW, "dark")])
def test_nothing_waits_and_nothing_is_remembered(visit, shop, size, theme):
    page = visit(shop().url + "#/approvals", size=size, theme=theme)
    expect(page.get_by_role("heading", name="Nothing waits for a reply")).to_be_visible()
    expect(page.get_by_text("No reply is remembered")).to_be_visible()
    expect(page.get_by_text("No question has been replied to yet.")).to_be_visible()
    accessible(page)
    fits(page)


@pytest.mark.parametrize(("size", "theme"), [((1280, 800), "light"), (NARROW, "dark")])
def test_activity_lists_what_waits_for_a_reply(visit, shop, size, theme):
    server = shop(config=CONFIG.replace("Ann", "Ann" * 500))
    suspended(server)
    page = visit(server.url + "#/activity", size=size, theme=theme)
    row = page.get_by_role("link", name="needs approval")
    expect(row).to_contain_text("Run pay with")
    expect(page.get_by_text("Nothing does.")).to_have_count(0)
    accessible(page)
    fits(page)
    row.click()
    card = approval(page)
    expect(card.get_by_role("group", name="arguments")).to_contain_text("AnnAnn")
    # All arguments are shown once: their sentence above takes up some lines.
    assert card.locator(".question-text").bounding_box()["height"] < 100
    accessible(page)


@pytest.mark.parametrize(("size", "theme"), [((1280, 800), "light"), (NARROW, "dark")])
def test_a_call_is_approved_with_the_keyboard(visit, shop, size, theme):
    """All of it is shown: digits beyond a float's, and characters that are invisible."""
    server = shop()
    page = visit(server.url + "#/approvals", size=size, theme=theme)
    expect(page.get_by_role("heading", name="Nothing waits for a reply")).to_be_visible()
    suspended(server)

    expect(approval(page)).to_contain_text('"amount": 12345678901234567890')
    expect(approval(page)).to_contain_text("\\u202e\\u0007")
    expect(page.locator(COUNT)).to_contain_text("1")
    accessible(page)
    fits(page)
    approve = approval(page).get_by_role("button", name="Approve")
    while not approve.evaluate("node => node === document.activeElement"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(approval(page)).to_contain_text("Approved by you")
    expect(page.locator(COUNT)).to_have_count(0)
    past = page.get_by_role("region", name="Past")
    expect(past.get_by_role("listitem")).to_contain_text("approved")
    past.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(past).to_contain_text('"amount": 12345678901234567890')
    accessible(page)
    fits(page)
    page.goto(server.url + "#/chat/c1")
    expect(page.locator(".answer")).to_contain_text("Done.")
    assert paid(server) == ["12345678901234567890 Ann\u202e\x07"]


def test_a_call_is_rejected_and_the_model_gets_the_reason(visit, shop):
    server = shop()
    suspended(server)
    page = visit(server.url + "#/approvals")
    approval(page).get_by_role("button", name="Reject…").click()
    page.keyboard.type("Ann has been paid")
    accessible(page)
    page.keyboard.press("Enter")

    expect(approval(page)).to_contain_text("Rejected by you")
    past = page.get_by_role("region", name="Past")
    past.locator("summary").click()
    expect(past).to_contain_text("Ann has been paid")
    page.goto(server.url + "#/chat/c1")
    expect(page.locator(".answer")).to_contain_text("Done.")
    expect(page.locator(".tool-call")).to_contain_text("Ann has been paid")
    assert paid(server) == []


def test_a_new_question_does_not_disturb_a_reply(visit, shop):
    server = shop(config=ENDLESS)
    suspended(server)
    page = visit(server.url + "#/approvals")
    approval(page).get_by_role("button", name="Reject…").click()
    page.keyboard.type("Ann has")
    suspended(server, "c2")
    expect(approval(page)).to_have_count(2)
    page.keyboard.type(" been paid")
    expect(page.get_by_label("Reason, for the model")).to_have_value("Ann has been paid")
    expect(page.locator(COUNT)).to_contain_text("2")


def test_changed_arguments_are_shown_again_before_they_run(visit, shop):
    server = shop()
    suspended(server)
    page = visit(server.url + "#/approvals", size=NARROW)
    approval(page).get_by_role("button", name="Edit…").click()
    page.get_by_label("Arguments, as JSON").fill('{"amount": 9007199254740993}')
    accessible(page)
    fits(page)
    approval(page).get_by_role("button", name=re.compile("these$")).click()
    expect(approval(page)).to_contain_text("missing 'to'")
    assert paid(server) == []
    page.get_by_label("Arguments, as JSON").fill('{"amount": 9007199254740993, "to": "Bob"}')
    approval(page).get_by_role("button", name=re.compile("these$")).click()

    again = approval(page).filter(has=page.get_by_role("button", name="Approve", exact=True))
    expect(again).to_contain_text('"amount": 9007199254740993')
    assert paid(server) == []
    again.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(COUNT)).to_have_count(0)
    page.goto(server.url + "#/chat/c1")
    expect(page.locator(".answer")).to_contain_text("Done.")
    assert paid(server) == ["9007199254740993 Bob"]


def test_a_remembered_reply_counts_until_it_is_revoked(visit, shop):
    server = shop()
    suspended(server)
    page = visit(server.url + "#/approvals")
    approval(page).get_by_label("Approve for").select_option("always")
    approval(page).get_by_role("button", name="Approve", exact=True).click()
    rules = page.get_by_role("region", name="Remembered")
    expect(rules).to_contain_text("with these arguments, always")
    expect(rules).to_contain_text("12345678901234567890")
    accessible(page)
    fits(page)
    answer = ask(server, "chat/api", {"prompt": "Pay Ann", "conversation": "c2"})
    assert answer["status"] == "success"
    assert len(paid(server)) == 2

    rules.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("No reply is remembered")).to_be_visible()
    suspended(server, "c3")
    expect(page.locator(COUNT)).to_contain_text("1")


def test_of_two_people_the_second_gets_the_name_of_the_first(visit, shop, tmp_path):
    (tmp_path / "tokens").write_text("acme token-of-acme-acme\n")
    (tmp_path / "tokens").chmod(0o600)
    server = shop("", "--token-file", str(tmp_path / "tokens"))
    suspended(server, token="token-of-acme-acme")
    one, two = (visit(f"{server.url}?token=token-of-acme-acme") for _ in range(2))
    for page in (one, two):
        page.goto(server.url + "#/approvals")
        expect(approval(page)).to_be_visible()
    two.route("**/api/questions?*", lambda route: route.abort())  # it has not heard of the reply
    two.route("**/api/questions/*", lambda route: route.abort() if route.request.method == "GET" else route.continue_())
    one.bring_to_front()
    approval(one).get_by_role("button", name="Approve", exact=True).click()
    expect(approval(one)).to_contain_text("Approved by you")
    two.bring_to_front()
    approval(two).get_by_role("button", name="Reject…").click()
    approval(two).get_by_role("button", name="Reject").click()

    expect(approval(two)).to_contain_text("it was answered by acme at")
    expect(approval(two).get_by_role("button", name="Reject")).to_have_count(0)
    assert len(paid(server)) == 1


def test_a_card_names_who_else_has_replied(visit, shop):
    server = shop()
    suspended(server)
    page = visit(server.url + "#/approvals")
    expect(approval(page)).to_be_visible()
    (question,) = ask(server, "api/questions")["questions"]
    ask(server, f"api/questions/{question['id']}/reply", {"action": "decline", "reason": "no"})

    expect(approval(page)).to_contain_text("Rejected by web: no")
    expect(approval(page).get_by_role("button", name="Approve")).to_have_count(0)


def test_a_server_that_is_gone_is_named_and_looked_for(visit, shop):
    server = shop()
    suspended(server)
    page = visit(server.url + "#/approvals")
    expect(approval(page)).to_be_visible()
    page.route("**/api/questions?*", lambda route: route.abort())
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
    expect(approval(page)).to_be_visible()
    accessible(page)
    page.unroute("**/api/questions?*")
    expect(page.get_by_role("alert")).to_have_count(0)
    approval(page).get_by_role("button", name="Approve", exact=True).click()
    expect(approval(page)).to_contain_text("Approved by you")


def test_the_newest_of_several_questions_is_first(visit, shop):
    server = shop(config=ENDLESS)
    for number in range(3):
        suspended(server, f"c{number}")
    page = visit(server.url + "#/approvals")
    expect(approval(page)).to_have_count(3)
    expect(page.get_by_role("heading", name="Open (3)")).to_be_visible()
    newest = ask(server, "api/questions")["questions"][0]["conversation"]
    link = page.get_by_role("article").first.get_by_role("link", name="the conversation")
    expect(link).to_have_attribute("href", re.compile(newest))


SECRET = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
HOOK = f"""
[questions]
webhook = "https://hooks.example.com/x"
webhook_secret = "{SECRET}"
public_url = "https://chat.example.com"
"""


def token_of(question):
    from flexchat.store import PendingQuestion, Question
    from flexchat_approvals.links import make_token

    plain = {name: question[name] for name in ("tenant", "conversation", "turn", "asked_at", "expires_at")}
    return make_token(SECRET, PendingQuestion(question=Question(message="", id=question["id"]), **plain))


@pytest.mark.parametrize(("size", "theme"), [((1280, 800), "light"), (NARROW, "dark")])
def test_a_link_takes_one_reply_without_a_sign_in(visit, shop, tmp_path, size, theme):
    (tmp_path / "tokens").write_text("acme token-of-acme-acme\n")
    (tmp_path / "tokens").chmod(0o600)
    server = shop(HOOK, "--token-file", str(tmp_path / "tokens"))
    suspended(server, token="token-of-acme-acme")
    (question,) = ask(server, "api/questions", token="token-of-acme-acme")["questions"]
    place = f"#/approvals/by-token/{token_of(question)}"

    page = visit(server.url + place, size=size, theme=theme)
    expect(approval(page)).to_contain_text('"amount": 12345678901234567890')
    accessible(page)
    fits(page)
    page.reload()
    assert paid(server) == []  # looking changes nothing
    approval(page).get_by_role("button", name="Approve", exact=True).click()
    expect(approval(page)).to_contain_text("Approved by you")
    page.reload()
    expect(page.get_by_role("heading", name="This link leads to no open question")).to_be_visible()
    expect(page.get_by_text("it was answered by a link sent to the webhook")).to_be_visible()
    (past,) = ask(server, "api/questions?state=replied", token="token-of-acme-acme")["questions"]
    assert past["replied_by"] == "a link sent to the webhook"


def test_a_forged_link_leads_nowhere(visit, shop):
    server = shop(HOOK)
    suspended(server)
    page = visit(server.url + "#/approvals/by-token/forged.forged")
    expect(page.get_by_text("it is cut off, forged or too old")).to_be_visible()
    for method in ("GET", "POST"):
        body = {"action": "accept"} if method == "POST" else None
        with pytest.raises(HTTPError) as caught:
            ask(server, "api/approvals/by-token/forged.forged", body, method=method)
        caught.value.close()
        assert caught.value.code == 404
    assert paid(server) == []
