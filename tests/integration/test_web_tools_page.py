"""The pages Tools and Explain, in a real browser."""

import httpx
import pytest
from playwright.sync_api import expect
from web_browser import NARROW, accessible, fits, lose_answers

pytestmark = pytest.mark.slow

RULES = """
[llms.one]
provider = "rehearsal"
default_model = "rehearsal"

[[responses]]
match = { rag_results = "match" }
llm = "one"
model = "librarian"

[[responses]]
llm = "one"
"""


def test_tools(visit, demo_server):
    """Tools are found, told about, and called by hand with a form made from their schema, or with JSON."""
    page = visit(demo_server.url + "#/tools")
    expect(page.locator(".tool-lint summary").first).to_be_visible()
    accessible(page)
    page.get_by_role("searchbox", name="Search tools").fill("arithmetic")
    expect(page.locator(".tool-card")).to_have_count(1)
    page.locator(".tool-lint summary").click()
    expect(page.locator(".lint-list")).to_contain_text("openai.strict")

    page.get_by_role("button", name="Try it: calculator").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Run").click()
    expect(dialog.get_by_text("is required")).to_be_visible()
    field = dialog.get_by_label("expression")
    expect(field).to_be_focused()
    field.fill("17% of 230")
    page.keyboard.press("Enter")
    result = dialog.get_by_role("region", name="Result", exact=True)
    expect(result).to_contain_text("39.1")
    accessible(page)
    dialog.get_by_text("JSON", exact=True).click()
    dialog.get_by_role("textbox").fill('{"expression": "1 / 0"}')
    dialog.get_by_role("button", name="Run").click()
    expect(result).to_contain_text("failed")
    dialog.get_by_role("textbox").fill("{")
    dialog.get_by_role("button", name="Run").click()
    expect(dialog.get_by_text("is not JSON")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Try it: calculator")).to_be_focused()

    page.get_by_role("searchbox", name="Search tools").fill("uuid")
    page.get_by_role("button", name="Try it: generate_uuid").click()
    expect(dialog).to_contain_text("There is nothing to fill in.")
    dialog.get_by_role("button", name="Run").click()
    expect(result).to_contain_text("succeeded")
    page.evaluate("location.hash = '#/nope'")
    expect(page.get_by_role("heading", name="No such page")).to_be_visible()
    expect(dialog).to_have_count(0)
    page.go_back()
    page.get_by_role("button", name="Try it: calculator").click()
    expect(dialog).to_be_visible()
    page.go_forward()
    expect(page.get_by_role("heading", name="No such page")).to_be_visible()
    expect(dialog).to_have_count(0)

    # The form starts again where the server comes back.
    page.context.set_offline(True)
    page.get_by_role("link", name="Test").click()
    expect(page.get_by_text("The page tries again by itself.").first).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_label("Model", exact=True)).to_be_enabled()
    expect(page.get_by_text("The page tries again by itself.")).to_have_count(0)

    narrow = visit(demo_server.url + "#/tools", size=NARROW, theme="dark")
    expect(narrow.locator(".tool-card").first).to_be_visible()
    fits(narrow)


def test_explain(visit, serve):
    """A message's phases are shown, and which rules do not fit and why."""
    page = visit(serve(RULES).url + "#/explain")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("alert")).to_have_text("Write the message that is to be explained.")
    page.get_by_label("Message").fill("What is 3 + 4?")
    page.keyboard.press("Enter")
    expect(page.locator(".alert.ok")).to_contain_text("Rule 2 answers")
    expect(page.locator(".timeline > li")).to_have_count(5)
    rules = page.locator(".rules > li")
    expect(rules.nth(0)).to_contain_text("does not fit")
    expect(rules.nth(0).get_by_label("not met:")).to_be_visible()
    expect(rules.nth(1)).to_contain_text("answers")
    accessible(page)
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    fits(page)


def test_signing_in_and_out(visit, serve, tmp_path):
    """The token stands in no address; a wrong one is told in the form, also that of a link."""
    tokens = tmp_path / "tokens"
    tokens.write_text("alice 0123456789abcdef\n", "utf-8")
    tokens.chmod(0o600)
    server = serve(RULES, "--token-file", str(tokens))
    page = visit(server.url + "?token=wrong-wrong-wrong#/tools")
    problem = page.get_by_role("alert")
    expect(problem).to_have_text("The link's token is not one of the server's.")
    assert page.url == server.url + "#/tools"
    page.get_by_label("Token", exact=True).fill("wrong")
    page.keyboard.press("Enter")
    expect(problem).to_contain_text("check that it is complete")
    accessible(page)
    page.get_by_label("Token", exact=True).fill("0123456789abcdef")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Tools are switched off")).to_be_visible()
    assert page.url == server.url + "#/tools"
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    fits(page)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token", exact=True)).to_be_visible()
    linked = visit(server.url + "?token=0123456789abcdef")
    expect(linked.get_by_role("button", name="Sign out")).to_be_visible()
    assert linked.url == server.url


SCHEMA = {
    "type": "object",
    "required": ["city", "count"],
    "$defs": {
        "node": {"type": "object", "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/node"}}}
    },
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "loud": {"type": "boolean"},
        "unit": {"enum": ["C", "F"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "days": {"type": "array", "items": {"enum": ["Mo", "Tu"]}},
        "when": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        "tree": {"$ref": "#/$defs/node"},
        "prices": {"type": "object", "additionalProperties": {"type": "number"}},
        "points": {
            "type": "array",
            "items": {"type": "object", "required": ["x"], "properties": {"x": {"type": "number"}}},
        },
        "any": {},
    },
}
VALUES = (
    {},
    {"city": "Rome", "count": 3, "loud": False, "unit": "F", "tags": ["a", "b"], "days": ["Tu"], "when": 5},
    {
        "tree": {"name": "r", "child": {"child": {"name": "s"}}},
        "prices": {"a": 1.5},
        "points": [{"x": 0}],
        "any": [None],
    },
    {"when": "now", "tags": [], "prices": {}, "not in the schema": {"kept": True}},
)


def test_schema_form(visit, demo_server):
    """A form gives back the value it was made with, says what is wrong at its field, and keeps order when moved."""
    page = visit(demo_server.url + "#/explain")
    page.get_by_role("heading", level=1).wait_for()
    made = """async ([schema, value]) => {
        const { schemaForm } = await import("./static/js/schema_form.js");
        window.told = [];
        window.form = schemaForm(schema, { value, raw: true, onChange: (all, path, part) => told.push([path, part]) });
        document.querySelector(".page").replaceChildren(form.node);
        return form.value;
    }"""
    for value in VALUES:
        assert page.evaluate(made, [SCHEMA, value]) == value
    page.evaluate(made, [SCHEMA, VALUES[1] | VALUES[2] | {"city": "R", "count": "many"}])
    problems = {problem["path"]: problem["text"] for problem in page.evaluate("form.validate()")}
    assert problems == {"city": "must have at least 2 characters", "count": "must be a whole number"}
    expect(page.get_by_label("city")).to_be_focused()
    expect(page.get_by_label("city")).to_have_attribute("aria-invalid", "true")
    told = [{"path": "points[0].x", "text": "too near"}, {"path": "llms.x", "text": "elsewhere"}]
    assert page.evaluate("told => form.showProblems(told)", told) == told[1:]
    expect(page.get_by_text("too near")).to_be_visible()
    page.get_by_role("button", name="Move entry 2 up").first.click()
    page.get_by_role("button", name="Add to tags").click()
    page.keyboard.type("c")
    assert page.evaluate("told.at(-1)") == [["tags", 2], "c"]
    assert page.evaluate("form.value.tags") == ["b", "a", "c"]
    page.get_by_label("city").fill("Paris")
    page.get_by_text("JSON", exact=True).click()
    assert page.evaluate("form.value.city") == "Paris"
    accessible(page)


PAYING = """
[llms.one]
provider = "rehearsal"
default_model = "rehearsal"

[[responses]]
llm = "one"

[[tools.registry]]
name = "pay"
description = "Pay."
effect = "write"
parameters = { type = "object", properties = { amount = { type = "integer" } } }
implementation = { type = "mock", mock_response = "paid" }
"""


def test_a_call_whose_answer_is_lost_is_not_made_again(visit, serve):
    """Each press of Run is a call of its own, but not if nobody knows what came of the last one."""
    server = serve(PAYING)
    page = visit(server.url + "#/tools")
    keys = lose_answers(page, "api/tools/call", 1)
    page.get_by_role("button", name="Try it: pay").click()
    dialog = page.get_by_role("dialog", name="pay")
    result = dialog.get_by_role("region", name="Result", exact=True)

    def run():
        dialog.get_by_role("button", name="Run", exact=True).click()
        page.get_by_role("dialog").last.get_by_role("button", name="Run", exact=True).click()

    run()
    expect(dialog.get_by_role("alert")).to_contain_text("cannot be reached")
    run()
    expect(result).to_contain_text("stored result")
    assert len(httpx.get(server.url + "api/effects").json()["effects"]) == 1
    run()
    expect(result).not_to_contain_text("stored result")
    assert len(httpx.get(server.url + "api/effects").json()["effects"]) == 2
    assert (keys[0] == keys[1], keys[1] == keys[2]) == (True, False)


PRICED = """
[llms.one]
provider = "rehearsal"
default_model = "rehearsal"

[[responses]]
llm = "one"
match = { topic = "sums" }
tools = { enabled = true, allowed_tools = ["calculator"] }

[[responses]]
llm = "one"
match = { topic = "talk" }

[[responses]]
llm = "one"
tools = { enabled = true }

[[tools.registry]]
name = "calculator"

[[tools.registry]]
name = "text_replace"
"""


def test_the_price_of_tools_is_a_range_from_the_cheapest_rule_to_the_dearest(visit, serve):
    """Of the rules that offer tools; a single figure where they cost the same."""
    server = serve(PRICED)
    page = visit(server.url + "#/tools")
    price = page.locator(".tools-price")
    expect(price.locator("li")).to_have_count(2)
    price.locator("summary").click()
    told = [one.split("about ")[1].split(" tokens")[0] for one in price.locator("li").all_inner_texts()]
    low, high = sorted(told, key=lambda one: int(one.replace(",", "")))
    assert low != high
    expect(price.locator("summary")).to_have_text(
        f"Price: about {low} to {high} tokens of every request, depending on its rule"
    )
    expect(price.locator("li")).to_contain_text(["Rule 1: 1 tool,", "Rule 3: 2 tools,"])
    alike = visit(serve(PRICED.replace('allowed_tools = ["calculator"]', "")).url + "#/tools")
    expect(alike.locator(".tools-price summary")).to_have_text(
        f"Price: about {high} tokens of every request, depending on its rule"
    )
