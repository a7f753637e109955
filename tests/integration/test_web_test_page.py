"""The page Test, in a real browser."""

import pytest
from playwright.sync_api import expect
from web_browser import NARROW, accessible, fits

pytestmark = pytest.mark.slow

SILENT = """
[llms.silent]
provider = "scripted"
default_model = "mute"
replies = [{ text = "I would **rather** not." }]
repeat = true

[llms.stuck]
provider = "scripted"
default_model = "loop"
replies = [{ tool_calls = [{ name = "echo", arguments = { text = "again" } }] }]
repeat = true

[llms.broken]
provider = "scripted"
default_model = "down"
replies = [{ error = "overloaded" }]
repeat = true
retries = 0

[[responses]]
llm = "silent"
tools = { enabled = true }

[tools]
max_iterations = 1

[[tools.registry]]
name = "echo"
"""


def test_a_model_is_tested_with_the_demo(visit, demo_server):
    """Tools as cards, an alert without query, four examples, a busy button, calls, answer and what is known then
    (TC-5, TC-85 to TC-90, TC-100).
    """
    page = visit(demo_server.url + "#/test")
    calculator = page.locator(".test-tool", has_text="calculator")
    expect(calculator).to_contain_text("builtin")
    expect(page.get_by_label("Model", exact=True)).to_be_enabled()
    run = page.get_by_role("button", name="Run test")
    run.click()
    expect(page.get_by_role("alert")).to_have_text("Please give a query first.")
    expect(page.get_by_label("Query")).to_be_focused()
    examples = page.get_by_role("group", name="Examples").get_by_role("button")
    said = [
        "What's the weather in Paris?",
        "Calculate 15% tip on $45",
        "What's 2+2?",
        "Search for Python decorators in the docs",
    ]
    for index, words in enumerate(said):
        examples.nth(index).click()
        expect(page.get_by_label("Query")).to_have_value(words)
    page.get_by_label("Query").fill("What is 17% of 230?")
    run.click()
    results = page.get_by_role("region", name="Results")
    expect(results.get_by_role("heading", name="Tool calls (1)")).to_be_visible()
    expect(results.locator(".tool-call")).to_contain_text("39.1")
    expect(results.locator(".tool-call")).to_contain_text("round 1")
    expect(results.locator(".facts")).to_contain_text("rehearsal")
    expect(results).to_contain_text("not judged")  # nobody said what was expected
    expect(results.locator(".test-status")).to_have_count(0)
    expect(run).to_be_enabled()
    expect(page.locator(".test-known")).not_to_contain_text("passed")
    page.get_by_label("A tool call is expected").check()
    run.click()
    expect(results.get_by_text("passed", exact=True)).to_be_visible()
    expect(results.get_by_role("img", name="with 95 % confidence")).to_be_visible()
    expect(results.locator(".test-status")).to_contain_text("1 of 1 passed")
    expect(results.locator(".test-status")).to_contain_text("undecided")
    expect(run).to_be_enabled()
    expect(page.locator(".test-known")).to_contain_text("claims tools, not validated")
    accessible(page)

    narrow = visit(demo_server.url + "#/test", size=NARROW, theme="dark")
    expect(narrow.locator(".test-tool").first).to_be_visible()
    fits(narrow)


def test_no_call_a_limit_and_a_dead_service_are_told(visit, serve):
    """A test without a call is no success; the limit of iterations is a warning; an error can be tried again."""
    page = visit(serve(SILENT).url + "#/test")
    expect(page.get_by_label("Model", exact=True)).to_be_enabled()
    run = page.get_by_role("button", name="Run test")
    run.click()
    expect(page.get_by_role("alert")).to_have_text("Please give a model and a query first.")
    page.get_by_label("Query").fill("Say it again")
    page.get_by_label("A tool call is expected").check()
    page.get_by_label("Model", exact=True).select_option("silent/mute")
    run.click()
    results = page.get_by_role("region", name="Results")
    expect(results.get_by_role("heading", name="Tool calls (0)")).to_be_visible()
    expect(results).to_contain_text("A test without a call is not a success.")
    expect(results.locator("strong", has_text="rather")).to_be_visible()
    expect(results.locator(".test-status")).to_contain_text("0 of 1 passed")

    page.get_by_label("Model", exact=True).select_option("stuck/loop")
    run.click()
    expect(results).to_contain_text("Limit of iterations reached.")

    page.get_by_label("Model", exact=True).select_option("broken/down")
    run.click()
    expect(results.get_by_role("alert")).to_contain_text("The test failed")
    expect(results.get_by_role("button", name="Try again")).to_be_visible()
    expect(run).to_be_enabled()
    accessible(page)


CHANGING = """
[llms.eager]
provider = "scripted"
default_model = "m"
replies = [
    { tool_calls = [{ name = "look", arguments = {} }, { name = "wipe", arguments = {} }, { name = "tidy" }] },
    { text = "Done." },
]
repeat = true

[[responses]]
llm = "eager"
tools = { enabled = true }

[[tools.registry]]
name = "look"
description = "Look around."
effect = "read"
parameters = { type = "object" }
implementation = { type = "mock", mock_response = "seen" }

[[tools.registry]]
name = "wipe"
description = "Delete everything."
effect = "write"
parameters = { type = "object" }
implementation = { type = "mock", mock_response = "wiped" }

[[tools.registry]]
name = "tidy"
description = "Put everything in order."
effect = "idempotent"
parameters = { type = "object" }
implementation = { type = "mock", mock_response = "tidied" }
"""


def test_tools_that_change_something_run_only_when_asked_for_and_confirmed(visit, serve):
    """Otherwise they answer with success; tools that read always run."""
    page = visit(serve(CHANGING).url + "#/test")
    page.get_by_label("Model", exact=True).select_option("eager/m")
    page.get_by_label("Query").fill("Clean up.")
    run = page.get_by_role("button", name="Run test")
    results = page.get_by_role("region", name="Results")
    expect(page.locator(".test-tool", has_text="wipe")).to_contain_text("changes things")

    run.click()
    expect(results).to_contain_text("Not run, because they change something: tidy, wipe.")
    expect(results).to_contain_text("seen")
    expect(results).not_to_contain_text("wiped")
    expect(results).not_to_contain_text("tidied")
    accessible(page)

    page.get_by_label("Run tools that change something").check()
    run.click()
    dialog = page.get_by_role("dialog", name="Run tools for real?")
    expect(dialog).to_contain_text("wipe, tidy")
    dialog.get_by_role("button", name="Cancel").click()
    expect(results).not_to_contain_text("wiped")
    run.click()
    dialog.get_by_role("button", name="Run").click()
    expect(results).to_contain_text("wiped")
    expect(results).to_contain_text("tidied")
    expect(results).not_to_contain_text("Not run")


def test_a_tool_that_is_safe_to_repeat_is_not_tried_without_asking(visit, serve):
    """It changes something all the same."""
    page = visit(serve(CHANGING).url + "#/tools")
    page.get_by_role("button", name="Try it: tidy").click()
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    expect(page.get_by_role("dialog", name="Run tidy?")).to_contain_text("It changes something")
