"""High contrast, in a real browser: what is chosen, focused or in a state is seen without the page's own colours."""

import itertools
import re

import pytest
from playwright.sync_api import expect
from web_browser import NARROW, WIDE, fits

pytestmark = pytest.mark.slow

LONG = "anthropic/claude-opus-4-5-20251101-extended-thinking-preview-with-a-long-name"
CONFIG = f"""
[llms.rehearsal]
provider = "rehearsal"
default_model = "rehearsal"

[llms.main_openai_compatible_service]
provider = "scripted"
default_model = "{LONG}"
replies = [{{ text = "I would rather not." }}]
repeat = true

[llms.other]
provider = "openai"
api_key = "abcdefghij123456"
base_url = "http://127.0.0.1:9/v1"
default_model = "{LONG}"

[[responses]]
llm = "main_openai_compatible_service"
match = {{ topic = "silence" }}

[[responses]]
llm = "rehearsal"
tools = {{ enabled = true }}

[[tools.registry]]
name = "calculator"

[validation]
models = ["rehearsal/rehearsal", "main_openai_compatible_service/{LONG}"]

[[validation.cases]]
name = "product"
message = "What is 12 * 12?"
calls = [{{ tool = "calculator" }}]
"""


def style(locator, name):
    return locator.evaluate("(node, name) => getComputedStyle(node)[name]", name)


def is_filled(locator):
    """Whether it has the system's colours of what is chosen."""
    probe = """node => {
      const probe = document.createElement("i");
      probe.style.cssText = "forced-color-adjust: none; background: Highlight; color: HighlightText";
      document.body.append(probe);
      const [chosen, own] = [getComputedStyle(probe), getComputedStyle(node)];
      const same = chosen.backgroundColor === own.backgroundColor && chosen.color === own.color;
      probe.remove();
      return same;
    }"""
    return locator.evaluate(probe)


def is_outlined(locator):
    return style(locator, "outlineStyle") == "solid" and float(style(locator, "outlineWidth").removesuffix("px")) >= 3


def test_what_is_chosen_is_filled_and_what_is_focused_is_outlined(visit, serve):
    """Also where both are one: the link of the page that is shown."""
    page = visit(serve(CONFIG).url + "#/activity", forced_colors="active")
    current = page.locator("#navigation [aria-current]")
    other = page.locator('#navigation [data-key="tools"]')
    expect(current).to_be_visible()
    assert (is_filled(current), is_filled(other)) == (True, False)
    assert not is_outlined(current)
    for _ in range(20):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        assert is_outlined(focused) or is_outlined(focused.locator("xpath=..")), focused.evaluate("n => n.outerHTML")
        if focused.get_attribute("aria-current"):
            break
    assert is_outlined(current)


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_parts_of_the_configuration_are_told_apart(visit, serve, size):
    page = visit(serve(CONFIG).url + "#/config", size=size, forced_colors="active")
    chosen, other = (page.get_by_role("tab", name=name) for name in ("LLMs", "Rules"))
    expect(chosen).to_be_visible()
    assert (is_filled(chosen), is_filled(other)) == (True, False)
    if size == NARROW:
        shown, hidden = (page.locator(".config-views label", has_text=name) for name in ("Form", "Text"))
        assert (is_filled(shown), is_filled(hidden)) == (True, False)
        hidden.click()
    note = page.locator(".editor-note:visible")
    for each in note.all():  # behind its line, as the browser lays the line out
        start = page.evaluate(
            """() => {
              const area = document.querySelector(".editor-area");
              const line = area.value.split("\\n").find((one) => one.startsWith("api_key"));
              const ruler = document.createElement("span");
              const { fontSize, fontFamily } = getComputedStyle(area);
              Object.assign(ruler.style, { position: "absolute", whiteSpace: "pre", fontSize, fontFamily });
              ruler.textContent = line;
              document.body.append(ruler);
              const { width } = ruler.getBoundingClientRect();
              ruler.remove();
              return area.getBoundingClientRect().left + width;
            }"""
        )
        assert each.bounding_box()["x"] >= start
    fits(page)


def test_states_have_words_and_borders(visit, serve):
    """Of runs, models, cases and the progress of a run."""
    page = visit(serve(CONFIG).url + "#/validation", forced_colors="active")
    page.get_by_role("button", name="Run cases").click()
    page.get_by_role("dialog").get_by_role("button", name="Start").click()
    expect(page.locator(".toast")).to_contain_text("passed")
    passed = page.get_by_role("button", name="product at rehearsal/rehearsal: passed")
    failed = page.get_by_role("button", name=f"product at main_openai_compatible_service/{LONG}: failed")
    for cell in (passed, failed):
        expect(cell.locator("svg")).to_be_visible()
        expect(cell).to_have_css("border-top-style", "solid")
    assert passed.locator("svg").inner_html() != failed.locator("svg").inner_html()
    for badge in page.locator(".validation-model .badge").all():
        expect(badge).to_have_text(re.compile("undecided|validated|not tested"))
        expect(badge).to_have_css("border-top-style", "solid")
    expect(page.locator(".run-bar")).to_have_css("border-top-style", "solid")


@pytest.mark.parametrize("forced_colors", ["none", "active"])
def test_long_names_of_models_do_not_overlap_in_the_dialog_of_a_run(visit, serve, forced_colors):
    page = visit(serve(CONFIG).url + "#/validation", size=NARROW, forced_colors=forced_colors)
    page.get_by_role("button", name="Run cases").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("checkbox", name=LONG).first).to_be_visible()
    frame = dialog.bounding_box()
    boxes = dialog.evaluate(
        """node => [...node.querySelectorAll("label:has([type=checkbox])")].map((label) => {
          const range = document.createRange();
          range.selectNodeContents(label);
          const { left, right, top, bottom } = range.getBoundingClientRect();
          return { left, right, top, bottom };
        })"""
    )
    assert len(boxes) >= 3
    for box in boxes:
        assert frame["x"] <= box["left"]
        assert box["right"] <= frame["x"] + frame["width"]
    for above, below in itertools.pairwise(boxes):
        assert above["bottom"] <= below["top"] + 1
    fits(page)
