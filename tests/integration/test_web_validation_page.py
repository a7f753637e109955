"""The page Validation, in a real browser."""

import json

import pytest
from playwright.sync_api import expect
from web_browser import NARROW, accessible, fits
from web_server import WebServer

pytestmark = pytest.mark.slow

CASES = """
[llms.rehearsal]
provider = "rehearsal"
default_model = "rehearsal"

[llms.silent]
provider = "scripted"
default_model = "mute"
replies = [{ text = "I would rather not." }]
repeat = true

[[responses]]
llm = "silent"
match = { topic = "silence" }

[[responses]]
llm = "rehearsal"
tools = { enabled = true }

[[tools.registry]]
name = "calculator"

[[validation.cases]]
name = "product"
message = "What is 12 * 12?"
calls = [{ tool = "calculator" }]
tags = ["arithmetic"]

[[validation.cases]]
name = "small talk"
message = "Good morning!"
no_call = true
"""


def test_cases_are_run_to_a_verdict(visit, serve, tmp_path):
    """Two models run; the matrix shows who passed what, cells open their attempts, results go out and come in.

    What is validated, not validated, or stale is marked (TC-103).
    """
    server = serve(CASES)
    page = visit(server.url + "#/validation")
    page.get_by_role("button", name="Run cases").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("checkbox", name="rehearsal/rehearsal")).to_be_visible()
    for model in ("rehearsal/rehearsal", "silent/mute"):
        dialog.get_by_role("checkbox", name=model).check()
    dialog.get_by_label("How often each case is tried").fill("2")
    expect(dialog).to_contain_text("8 tests (4 for each model)")
    expect(dialog).to_contain_text("Too few for a verdict")
    dialog.get_by_label("How often each case is tried").fill("8")
    expect(dialog).to_contain_text("32 tests (16 for each model)")
    accessible(page)
    dialog.get_by_role("button", name="Start").click()

    expect(page.locator(".toast")).to_contain_text("24 passed, 8 failed")
    good = page.locator(".validation-model", has_text="rehearsal/rehearsal")
    expect(good).to_contain_text("validated")
    expect(good).to_contain_text("16 of 16 passed")
    expect(good.get_by_role("img", name="rehearsal/rehearsal: 16 of 16 passed")).to_be_visible()
    expect(good).to_contain_text("Abstains")
    expect(page.locator(".validation-model", has_text="silent/mute")).to_contain_text("not validated")
    expect(page.locator(".run")).to_contain_text("32/32 tests, 24 passed, 8 failed")
    page.get_by_role("button", name="product at silent/mute: failed: 0 of 8").click()
    expect(dialog.locator(".attempt")).to_have_count(8)
    expect(dialog.locator(".attempt").first).to_contain_text("calculator was not called")
    dialog.locator(".attempt > summary").first.click()
    expect(dialog.get_by_text("I would rather not.").first).to_be_visible()
    accessible(page)
    page.keyboard.press("Escape")
    accessible(page)

    page.get_by_label("Tag of the cases shown").select_option("arithmetic")
    expect(page.locator(".matrix tbody tr")).to_have_count(1)
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    kept = tmp_path / "results.json"
    download.value.save_as(kept)
    assert json.loads(kept.read_text("utf-8"))
    page.locator("input[type=file]").set_input_files(kept)
    expect(page.locator(".toast", has_text="imported from results.json")).to_be_visible()
    page.locator("input[type=file]").set_input_files({"name": "x.json", "mimeType": "text/json", "buffer": b"{"})
    expect(page.locator(".toast", has_text="x.json is not JSON")).to_be_visible()

    narrow = visit(server.url + "#/validation", size=NARROW, theme="dark")
    expect(narrow.locator(".matrix")).to_be_visible()
    fits(narrow)

    server.config.write_text(CASES.replace("Good morning!", "Good evening!"), "utf-8")
    assert page.request.post(server.url + "api/config/reload", data={}).ok
    page.reload()
    page.get_by_role("button", name="small talk at silent/mute: passed: 8 of 8, stale").wait_for()
    server.config.write_text(CASES.replace('message = "', 'message = "Please: '), "utf-8")
    assert page.request.post(server.url + "api/config/reload", data={}).ok
    page.reload()
    expect(page.locator(".matrix thead th", has_text="rehearsal/rehearsal")).to_contain_text("stale")
    tests = visit(server.url + "#/test")
    tests.get_by_label("Model", exact=True).select_option("rehearsal/rehearsal")
    expect(tests.locator(".test-known")).to_contain_text("claims tools, results are stale")

    server.config.write_text(CASES.replace("silent]", "mute]").replace('"silent"', '"mute"'), "utf-8")
    assert page.request.post(server.url + "api/config/reload", data={}).ok
    page.reload()
    expect(page.locator(".validation-model", has_text="rehearsal/rehearsal")).to_be_visible()
    expect(page.locator(".matrix thead th", has_text="silent/mute")).to_be_hidden()
    page.get_by_text("Other models in this store (1)").click()
    others = page.locator(".other-models")
    expect(others.locator(".validation-model")).to_contain_text("silent/mute")
    accessible(page)


NO_CASES = """
[llms.rehearsal]
provider = "rehearsal"
default_model = "rehearsal"

[[responses]]
llm = "rehearsal"
"""


def test_without_cases_the_page_says_how_to_write_one(visit, serve):
    """An example to copy; there is nothing to run."""
    page = visit(serve(NO_CASES).url + "#/validation")
    expect(page.get_by_role("heading", name="No cases yet")).to_be_visible()
    expect(page.locator(".validation-example")).to_contain_text("[[validation.cases]]")
    expect(page.get_by_role("button", name="Run cases")).to_be_disabled()
    accessible(page)


SLOW = """
[llms.slow]
provider = "scripted"
default_model = "loop"
replies = [{ tool_calls = [{ name = "wait" }] }, { text = "done" }]
repeat = true

[[responses]]
llm = "slow"
tools = { enabled = true }

[[tools.registry]]
name = "wait"
description = "Wait."
effect = "read"
parameters = { type = "object" }
implementation = { type = "mock", mock_response = "waited", delay_ms = 150 }

[validation]
concurrency = 1

[[validation.cases]]
name = "waits"
message = "Please wait."
calls = [{ tool = "wait" }]
"""


def test_a_run_is_cancelled_and_resumed(visit, serve):
    """Results so far are kept, and the rest is run later."""
    page = visit(serve(SLOW).url + "#/validation")
    page.get_by_role("button", name="Run cases").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("checkbox", name="slow/loop")).to_be_checked()
    expect(dialog).to_contain_text("16 tests (16 for each model)")
    dialog.get_by_role("button", name="Start").click()
    live = page.get_by_role("region", name="Run under way")
    expect(live.locator(".run-last")).to_contain_text("waits at slow/loop")
    live.get_by_role("button", name="Cancel").click()
    dialog.get_by_role("button", name="Keep running").click()
    live.get_by_role("button", name="Cancel").click()
    dialog.get_by_role("button", name="Cancel the run").click()
    row = page.locator(".run")
    expect(row).to_contain_text("cancelled")
    row.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("finished")
    expect(row).to_contain_text("16/16 tests")
    expect(page.locator(".validation-model")).to_contain_text("of 16 passed")


def test_a_run_whose_server_was_killed_is_found_interrupted_once_it_is_back(visit, tmp_path):
    """The page does not go on saying that it runs, and looks again by itself."""
    first = WebServer(tmp_path, SLOW)
    page = visit(first.url + "#/validation")
    page.get_by_role("button", name="Run cases").click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    live = page.get_by_role("region", name="Run under way")
    expect(live.locator(".run-last")).to_contain_text("waits at slow/loop")
    first.kill()
    expect(live).to_contain_text("The run cannot be watched")
    expect(live).to_contain_text("not known")
    expect(live.get_by_role("button", name="Cancel")).to_be_hidden()
    port = first.url.rstrip("/").rpartition(":")[2]
    second = WebServer(tmp_path, SLOW, "--port", port)
    try:
        expect(live).to_contain_text("interrupted")
        expect(page.locator(".run").get_by_role("button", name="Resume")).to_be_visible()
    finally:
        second.close()


CONFIGURED = """
[llms.one]
provider = "scripted"
default_model = "a"
replies = [{ text = "Hello.", usage = { input_tokens = 1000, output_tokens = 100 } }]
repeat = true
prices.a = { input = 100, output = 1000 }

[llms.two]
provider = "scripted"
default_model = "b"
replies = [{ text = "Hello.", usage = { input_tokens = 1000, output_tokens = 100 } }]
repeat = true

[[responses]]
llm = "two"

[[tools.registry]]
name = "wipe"
description = "Delete everything."
effect = "write"
parameters = { type = "object" }
implementation = { type = "mock", mock_response = "wiped" }

[validation]
models = ["one/a"]
runs = 3
run_tools = true

[[validation.cases]]
name = "greets"
message = "Hello!"
no_call = true
"""


def test_the_dialog_begins_with_the_configured_models_runs_and_prices(visit, serve):
    """Prices of an entry count, before the first run and after it; a model without one is named."""
    page = visit(serve(CONFIGURED).url + "#/validation")
    page.get_by_role("button", name="Run cases").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("checkbox", name="one/a")).to_be_checked()
    expect(dialog.get_by_role("checkbox", name="two/b")).not_to_be_checked()
    expect(dialog.get_by_label("How often each case is tried")).to_have_value("3")
    expect(dialog.locator(".run-plan")).to_contain_text("3 tests (3 for each model), about $0.3")
    expect(dialog).to_contain_text("tools that change something run for real (wipe)")
    dialog.get_by_role("checkbox", name="two/b").check()
    expect(dialog.locator(".run-plan")).to_contain_text("for 1 of 2 models. Not priced: two/b; give prices in")
    dialog.get_by_role("checkbox", name="two/b").uncheck()
    dialog.get_by_role("button", name="Start").click()
    expect(page.locator(".run")).to_contain_text("3/3 tests, 3 passed, 0 failed, $0.60")
    page.get_by_role("button", name="Run cases").click()
    expect(dialog.locator(".run-plan")).to_contain_text("about $0.60.")


LATE = """
[llms.late]
provider = "scripted"
default_model = "m"
replies = [{ text = "Hello." }, { error = "timeout" }, { error = "timeout" }, { error = "timeout" }]
repeat = true
retries = 0

[[responses]]
llm = "late"

[validation]
runs = 2
concurrency = 1

[[validation.cases]]
name = "greets"
message = "Hello!"
no_call = true
"""


def test_a_model_that_times_out_has_failed(visit, serve):
    """One answer of two is a rate of 50 %; each attempt is made up to three times."""
    page = visit(serve(LATE).url + "#/validation")
    page.get_by_role("button", name="Run cases").click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    model = page.locator(".validation-model", has_text="late/m")
    expect(model).to_contain_text("1 of 2 passed")
    expect(model.locator(".rate")).to_have_text("50 %")
    expect(page.get_by_role("button", name="greets at late/m: partly passed: 1 of 2")).to_be_visible()


def test_errors_of_the_service_are_shown_beside_the_rate(visit, serve):
    """They say nothing about the model, but the rate alone would hide that most tests gave no result."""
    page = visit(serve(LATE.replace('"timeout"', '"auth"').replace("runs = 2", "runs = 4")).url + "#/validation")
    page.get_by_role("button", name="Run cases").click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    model = page.locator(".validation-model", has_text="late/m")
    expect(model).to_contain_text("1 of 1 passed")
    expect(model).to_contain_text("3 more ended in an error of the service, and do not count.")
    expect(page.locator(".matrix-cell")).to_contain_text("3 errors")
