"""What turns, rules and conversations cost, on the page in a real browser."""

import pytest
from playwright.sync_api import expect
from web_browser import NARROW, accessible, fits

pytestmark = pytest.mark.slow

ENTRY = """
[llms.{name}]
provider = "openai"
api_key = "test-key"
base_url = "{url}"
default_model = "m-1"
retries = 0
"""
CONFIG = f"""{ENTRY.replace("{name}", "paid")}
[llms.paid.prices."m-1"]
input = 1000.5
output = 500
{ENTRY.replace("{name}", "local")}
[[responses]]
name = "sums"
llm = "paid"
match = {{ user_message_contains = "sum" }}

[[responses]]
name = "chat"
llm = "local"

[conversations]
provider = "sqlite"
"""


def ask(page, text):
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def test_a_turn_a_rule_and_a_conversation_say_what_they_cost(visit, serve, chat_server):
    """While they come and after a reload; a model without a price is said to have none, and never costs 0."""
    chat_server.replies = [{"content": "It is 5."}]
    server = serve(CONFIG.replace("{url}", chat_server.url))
    page = visit(server.url)
    costs, whole = page.locator(".facts .money"), page.locator(".conversation-price .money")
    ask(page, "the sum of 2 and 3?")
    expect(costs).to_have_text(["$0.013"])  # 10 and 5 tokens
    expect(whole).to_have_text("$0.013")
    ask(page, "And how are you?")
    expect(costs).to_have_text(["$0.013", "not priced"])
    expect(whole).to_have_text("at least $0.013")
    expect(costs.last).to_have_attribute("title", "Cost; not in it: no price is known for m-1 of local")
    accessible(page)

    again = visit(page.url, size=NARROW, theme="dark")
    expect(again.locator(".facts .money")).to_have_text(["$0.013", "not priced"])
    fits(again)
    again.get_by_role("button", name="Cost: at least $0.013").click()
    dialog = again.get_by_role("dialog", name="What this conversation cost")
    expect(dialog.get_by_role("row")).to_have_text(["Answered byTurnsCost", "sums1$0.013", "chat1not priced"])
    expect(dialog.get_by_role("listitem")).to_have_text(["no price is known for m-1 of local"])
    accessible(again)
    fits(again)
    again.keyboard.press("Escape")
    expect(again.get_by_role("button", name="Cost: at least $0.013")).to_be_focused()

    page.get_by_role("link", name="Why this rule?").last.click()
    expect(page.locator(".turn-asked + p .money")).to_have_text("not priced")
    expect(page.get_by_text("Not in the cost: no price is known for m-1 of local.")).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="Why this rule?").first.click()
    expect(page.get_by_role("region", name="Answers of the model")).to_contain_text("15 tokens · $0.013")
    accessible(page)

    page.get_by_role("link", name="Activity").click()
    page.get_by_text("Turns", exact=True).click()
    page.get_by_role("link").filter(has_text="the sum of 2 and 3?").click()
    expect(page.locator(".facts-list")).to_contain_text("Cost$0.013")
    expect(page.locator("[data-kind=answer]")).to_contain_text("$0.013")
    expect(page.locator("[data-kind=rule]")).not_to_contain_text("$")
    accessible(page)


def test_a_turn_that_did_not_end_is_not_said_to_be_free(visit, serve, chat_server):
    """It failed before any model had answered: nobody knows what that cost."""
    chat_server.replies = [(500, {"error": {"message": "down"}})]
    server = serve(CONFIG.replace("{url}", chat_server.url))
    page = visit(server.url)
    ask(page, "the sum of 2 and 3?")
    expect(page.get_by_text("No answer.")).to_be_visible()
    page.reload()
    expect(page.locator(".facts .money")).to_have_text("not priced")
    expect(page.locator(".conversation-price .money")).to_have_text("not priced")


def test_what_was_spent_is_added_up_on_the_page_activity(visit, serve, chat_server):
    """While there are budgets: exactly, by the name that is picked; what has no price is named."""
    chat_server.replies = [{"content": "It is 5."}]
    budget = '\n[[budgets]]\nscope = "all"\nper = "day"\ncalls = 1000\n'
    server = serve(CONFIG.replace("{url}", chat_server.url) + budget)
    page = visit(server.url)
    ask(page, "the sum of 2 and 3?")
    expect(page.locator(".facts .money")).to_have_count(1)
    ask(page, "And how are you?")
    expect(page.locator(".facts .money")).to_have_count(2)

    page = visit(f"{server.url}#/activity")
    section = page.get_by_role("region", name="Costs")
    expect(section.locator("tbody th")).to_have_text(["sums", "chat"])
    expect(section.locator("tbody tr td:nth-child(2)")).to_have_text(["$0.012505", "unpriced"])
    expect(section.locator("tfoot td").first).to_have_text("at least $0.012505")
    expect(section).to_contain_text("no price is known: local/m-1")
    section.get_by_label("Add up by").select_option("tenant")
    expect(section.locator("tbody th")).to_have_text(["default"])
    accessible(page)
