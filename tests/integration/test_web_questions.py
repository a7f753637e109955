"""A tool asks in the middle of an answer: the page shows a form, and the answer goes on with what is filled in."""

import re

import pytest
from playwright.sync_api import expect
from web_browser import accessible, fits
from web_server import WebServer

pytestmark = pytest.mark.slow

SHOP = """
from flexchat import ToolContext

CRUSTS = [{"const": "c1", "title": "Thin"}, {"const": "c2", "title": "Thick"}]
SCHEMA = {
    "type": "object",
    "properties": {
        "size": {"type": "string", "title": "Size", "enum": ["small", "large"], "description": "Large serves two."},
        "olives": {"type": "boolean", "title": "Olives"},
        "crust": {"type": "string", "title": "Crust", "oneOf": CRUSTS, "default": "c1"},
        "drink": {"type": "string", "title": "Drink", "oneOf": CRUSTS},
        "extras": {"type": "array", "title": "Extras", "items": {"anyOf": CRUSTS}},
        "count": {"type": "integer", "title": "How many", "minimum": 1, "default": 1},
    },
    "required": ["size"],
}


async def order(context: ToolContext):
    reply = await context.ask("Which pizza do you want?", SCHEMA)
    return {"action": reply.action, "content": dict(reply.content)}


async def pay(context: ToolContext):
    reply = await context.ask("Pay 12 euros?")
    return {"action": reply.action}
"""
CONFIG = """
[llms.main]
provider = "scripted"
default_model = "m"
repeat = true
replies = [
  { tool_calls = [{ name = "order", arguments = "{}" }] },
  { tool_calls = [{ name = "pay", arguments = "{}" }] },
  { text = "Ordered." },
]

[[responses]]
llm = "main"
tools = { enabled = true }

[[tools.registry]]
name = "order"
description = "Order a pizza."
effect = "read"
parameters = { type = "object", properties = {} }
implementation = { type = "python", function = "shop:order" }

[[tools.registry]]
name = "pay"
description = "Pay."
effect = "read"
parameters = { type = "object", properties = {} }
implementation = { type = "python", function = "shop:pay" }

[conversations]
provider = "sqlite"
"""


@pytest.fixture
def server(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    server = WebServer(tmp_path, CONFIG)
    yield server
    server.close()


def ask(page, text):
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_form_is_filled_in_and_the_answer_goes_on(visit, server, theme):
    page = visit(server.url, theme=theme)
    ask(page, "A pizza")
    question = page.get_by_role("region", name="Question of order")
    expect(question).to_contain_text("Which pizza do you want?")
    accessible(page)
    fits(page)

    question.get_by_role("button", name="Send").click()  # the size is missing
    expect(question.get_by_label(re.compile("Size"))).to_be_focused()
    question.get_by_label(re.compile("Size")).select_option("large")
    question.get_by_label("Crust").select_option("Thick")
    question.get_by_role("checkbox", name="Thin").check()
    question.get_by_role("button", name="Send").click()
    expect(question).to_contain_text("Answered")

    page.get_by_role("region", name="Question of pay").get_by_role("button", name="No").click()
    expect(page.get_by_role("region", name="Question of pay")).to_contain_text("Declined")
    expect(page.locator(".answer")).to_contain_text("Ordered.")
    expect(page.locator(".tool-call").first).to_contain_text('"large"')
    expect(page.locator(".tool-call").first).to_contain_text('"c2"')
    expect(page.locator(".tool-call").first).to_contain_text('"c1"')
    expect(page.locator(".tool-call").first).not_to_contain_text("drink")


def test_a_page_that_comes_back_shows_the_open_question(visit, server):
    page = visit(server.url)
    ask(page, "A pizza")
    expect(page.get_by_role("region", name="Question of order")).to_be_visible()
    page.reload()
    question = page.get_by_role("region", name="Question of order")
    question.get_by_role("button", name="Decline").click()
    expect(question).to_contain_text("Declined")
    page.get_by_role("region", name="Question of pay").get_by_role("button", name="Yes").click()

    expect(page.locator(".answer")).to_contain_text("Ordered.")


def test_an_answer_that_is_stopped_closes_its_question(visit, server):
    """It stays until the page has read the turn as it is stored, which has no questions; here that fails."""
    page = visit(server.url)
    page.route("**/api/conversations/*", lambda route: route.fulfill(status=503))
    ask(page, "A pizza")
    question = page.get_by_role("region", name="Question of order")
    expect(question).to_be_visible()
    page.get_by_role("button", name="Stop").click()

    expect(question).to_contain_text("Not answered")
    expect(question.get_by_role("button")).to_have_count(0)
