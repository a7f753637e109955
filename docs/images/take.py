"""Takes the pictures of the README again: starts the page, uses it, and photographs it with Chromium.

    python docs/images/take.py http://127.0.0.1:18080/v1 MODEL

The server speaks OpenAI's API and runs a real model, which is validated on the way (a few minutes on a slow machine).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "servers"))
from web_server import WebServer

WIDE = {"width": 1180, "height": 720}
CONFIG = """\
# A small shop assistant.
[llms.local]
provider = "openai"
base_url = "{url}"
api_key = "none"
default_model = "{model}"

[llms.rehearsal]
provider = "rehearsal"
default_model = "rehearsal"

[conversations]

[tools]
at_limit = "answer"

[[tools.registry]]
name = "calculator"

[[tools.registry]]
name = "get_weather"
description = "The weather of a city, now."
effect = "read"
parameters = {{ type = "object", properties = {{ city = {{ type = "string" }} }}, required = ["city"] }}
implementation = {{ type = "mock", mock_response = {{ sky = "light rain", celsius = 14 }} }}

[[responses]]
llm = "local"
prompt = "You are a helpful assistant. Be brief."
temperature = 0
tools = {{ enabled = true, max_iterations = 3 }}

[validation]
models = ["local/{model}", "rehearsal/rehearsal"]
temperature = 0
concurrency = 2

[[validation.cases]]
name = "weather of a city"
message = "What is the weather in Paris?"
calls = [{{ tool = "get_weather", arguments = {{ city = "Paris" }} }}]
tags = ["weather"]

[[validation.cases]]
name = "weather, sloppily"
message = "do i need an umbrella in nyc"
calls = [{{ tool = "get_weather", check = {{ city = {{ regex = "(?i)new york|nyc" }} }} }}]
tags = ["weather"]

[[validation.cases]]
name = "two cities at once"
message = "Compare the weather in Oslo and in Rome."
calls = [
    {{ tool = "get_weather", arguments = {{ city = "Oslo" }} }},
    {{ tool = "get_weather", arguments = {{ city = "Rome" }} }},
]
tags = ["weather"]

[[validation.cases]]
name = "a product"
message = "What is 1234 * 5678?"
calls = [{{ tool = "calculator" }}]
answer = {{ regex = "7[.,]?006[.,]?652" }}

[[validation.cases]]
name = "a percentage"
message = "How much is 17% of 230?"
calls = [{{ tool = "calculator" }}]

[[validation.cases]]
name = "small talk"
message = "Good morning! How are you?"
no_call = true

[[validation.cases]]
name = "thanks"
message = "Thank you, that was all."
no_call = true

[[validation.cases]]
name = "the service comes back"
message = "What is the weather in Madrid?"
calls = [{{ tool = "get_weather", arguments = {{ city = "Madrid" }} }}]
mocks = {{ get_weather = {{ error = "busy, try again", times = 1, result = {{ sky = "sunny", celsius = 28 }} }} }}
"""


def main(url: str, model: str) -> None:
    """Take chat.png, validation.png and config.png."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = WebServer(Path(folder), CONFIG.format(url=url, model=model))
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            page = browser.new_page(viewport=WIDE, device_scale_factor=1.5)
            page.set_default_timeout(120_000)
            chat(page, server.url)
            validate(page, server.url, model)
            page.goto(server.url + "#/config")
            page.get_by_role("tab", name="Rules").click()
            page.locator(".fold-toggle").first.click()
            page.wait_for_timeout(1000)
            page.screenshot(path=HERE / "config.png")
        finally:
            browser.close()
            server.close()


def chat(page: Page, base: str) -> None:
    """Ask two things, and photograph the second answer with its tool call."""
    page.goto(base + "#/chat")
    for question in ("What is 1234 * 5678?", "And what is the weather in Paris?"):
        page.get_by_role("textbox", name="Message").fill(question)
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        expect(page.get_by_role("button", name="Stop")).to_be_hidden(timeout=120_000)
    page.locator(".tool-call summary").last.click()
    page.wait_for_timeout(1000)
    page.screenshot(path=HERE / "chat.png")


def validate(page: Page, base: str, model: str) -> None:
    """Run all cases six times at both models, and photograph the matrix."""
    page.goto(base + "#/validation")
    page.get_by_role("button", name="Run cases").click()
    dialog = page.get_by_role("dialog")
    for name in (f"local/{model}", "rehearsal/rehearsal"):
        dialog.get_by_role("checkbox", name=name).check()
    dialog.get_by_label("How often each case is tried").fill("6")
    dialog.get_by_role("button", name="Start").click()
    expect(page.locator(".toast")).to_contain_text("passed", timeout=600_000)
    page.locator(".toast").wait_for(state="hidden")
    page.screenshot(path=HERE / "validation.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
