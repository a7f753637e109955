"""A real browser in front of a real server, and what every page must keep to.

Chromium's own sync API keeps an event loop in this thread: a browser is closed with the module that opened it, and
such a module has no async tests.
"""

import os
import shutil

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 20_000
ALWAYS = ("label-content-name-mismatch", "landmark-unique")
WIDE, NARROW = (1280, 800), (380, 760)


def chromium() -> str:
    """Return the browser's path; skip the test without one, unless FLEXCHAT_REQUIRE_BROWSER=1."""
    found = os.environ.get("FLEXCHAT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        reason = "no browser: install chromium, or name one in FLEXCHAT_CHROMIUM"
        if os.environ.get("FLEXCHAT_REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def open_browser():
    """Yield a browser."""
    path = chromium()
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(OPTIONS))
        yield browser
        browser.close()


class Visits:
    """Opens pages, and notes what none of them may do: log an error, ask another origin, scroll sideways."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list = []
        self.errors: list[str] = []
        self.foreign: list[str] = []

    def __call__(
        self, url: str, *, size: tuple[int, int] = WIDE, theme: str = "light", forced_colors: str = "none"
    ) -> Page:
        """Open a page in a window of its own: nothing is kept from those before. url: with its hash."""
        origin = "/".join(url.split("/")[:3])
        context = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=theme,
            reduced_motion="reduce",
            forced_colors=forced_colors,
        )
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        page = context.new_page()

        def logged(message) -> None:
            # The browser itself notes answers from 400 on; the pages show them.
            if message.type == "error" and not message.text.startswith("Failed to load resource"):
                self.errors.append(message.text)

        def asked(request) -> None:
            if not request.url.startswith((f"{origin}/", "data:", "blob:")):
                self.foreign.append(request.url)

        page.on("console", logged)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", asked)
        page.goto(url)
        return page

    def end(self) -> None:
        """Close all, and fail for what was noted."""
        for context in self._contexts:
            context.close()
        assert not self.errors, f"errors in the browser's console: {self.errors}"
        assert not self.foreign, f"requests that left the machine: {self.foreign}"


def accessible(page: Page) -> None:
    """Fail for what axe finds serious or critical or names in ALWAYS, in light and in dark."""
    before = page.evaluate("document.documentElement.dataset.theme")
    contrast = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}  # all a theme can spoil
    for theme, rules in (("light", {}), ("dark", contrast)):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        found = (
            Axe()
            .run(
                page,
                options={
                    "resultTypes": ["violations"],
                    **(rules if rules else {"rules": {"label-content-name-mismatch": {"enabled": True}}}),
                },
            )
            .response["violations"]
        )
        bad = [
            f"{one['id']} ({theme}): {one['help']}: {[node['html'][:160] for node in one['nodes'][:4]]}"
            for one in found
            if one["impact"] in ("serious", "critical") or one["id"] in ALWAYS
        ]
        assert not bad, "\n".join(bad)
    page.evaluate("theme => { document.documentElement.dataset.theme = theme }", before)


def fits(page: Page) -> None:
    """Fail if the page scrolls sideways."""
    width, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width <= window, f"the page is {width} px wide in a window of {window} px"


def lose_answers(page, path, times):
    """Let requests through to the server, and lose what it answers; return their keys."""
    keys = []

    def lose(route):
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) > times:
            return route.continue_()
        route.fetch()
        return route.abort("connectionreset")

    page.route(f"**/{path}", lose)
    return keys
