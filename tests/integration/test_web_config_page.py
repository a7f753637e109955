"""The page Config, in a real browser."""

import re
import tomllib

import pytest
from playwright.sync_api import expect
from web_browser import NARROW, WIDE, accessible, fits
from web_server import WebServer

pytestmark = pytest.mark.slow

CONFIG = """# Who answers.
[llms.one]  # the first
provider = "rehearsal"
default_model = "rehearsal"

[[responses]]
llm = "one"
prompt = "Be kind."
match = { topic_contains = "weather" }

# All the rest.
[[responses]]
llm = "one"

[[tools.registry]]
name = "calculator"
"""


@pytest.fixture(scope="module")
def editable(tmp_path_factory):
    server = WebServer(tmp_path_factory.mktemp("editable"), CONFIG)
    yield server
    server.close()


@pytest.fixture
def server(editable):
    """A server with the configuration above; what a test changes is undone before the next."""
    editable.config.write_text(CONFIG, "utf-8")
    return editable


def test_the_text_is_edited_with_an_error_and_then_without(visit, server):
    """The error stands at its line, in the list and at the form's field; then the change is applied to the file."""
    page = visit(server.url + "#/config")
    state = page.locator(".config-state")
    expect(state).to_have_text("Clean")
    apply = page.get_by_role("button", name="Apply…")
    expect(apply).to_be_disabled()
    text = page.get_by_label("Text of the configuration")
    text.fill(CONFIG.replace('llm = "one"\nprompt', 'llm = "onr"\nprompt'))
    expect(state).to_have_text("Invalid")
    expect(page.locator(".editor-gutter .bad")).to_have_text("7")
    expect(page.locator(".editor-note")).to_contain_text("did you mean 'one'?")
    expect(apply).to_be_disabled()
    page.get_by_role("button", name="Line 7").click()
    expect(text).to_be_focused()
    assert text.evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)") == 'llm = "onr"'
    field = page.get_by_label("llm").first
    expect(field).to_have_attribute("aria-invalid", "true")
    accessible(page)

    field.select_option("one")
    expect(text).to_have_value(CONFIG)
    expect(state).to_have_text("Clean")
    page.get_by_label("System prompt", exact=True).fill("Be brief.")
    expect(state).to_have_text("Valid")
    expect(text).to_have_value(CONFIG.replace("Be kind.", "Be brief."))
    apply.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".diff-line.added")).to_contain_text("Be brief.")
    dialog.get_by_role("button", name="Apply").click()
    expect(page.locator(".toast")).to_contain_text("Applied.")
    expect(state).to_have_text("Clean")
    assert server.config.read_text("utf-8") == CONFIG.replace("Be kind.", "Be brief.")


def test_what_others_do_to_the_file_is_shown(visit, server):
    """Where nothing was changed here, their text; else both are offered, and the one that is not wanted is seen."""
    page = visit(server.url + "#/config")
    state = page.locator(".config-state")
    text = page.get_by_label("Text of the configuration")
    outside = page.locator(".config-outside")
    expect(text).to_have_value(CONFIG)

    def written(content):
        server.config.write_text(content, "utf-8")
        page.evaluate("dispatchEvent(new Event('focus'))")

    written("# theirs\n" + CONFIG)
    expect(text).to_have_value("# theirs\n" + CONFIG)
    written(CONFIG.replace("kind", "curt"))
    expect(outside).to_contain_text("does not serve yet")
    expect(text).to_have_value(CONFIG.replace("kind", "curt"))
    accessible(page)
    outside.get_by_role("button", name="Put the file in force").click()
    expect(outside).to_be_empty()

    apply = page.get_by_role("button", name="Apply…")
    page.get_by_role("tab", name="Rules").click()
    page.locator(".fold-toggle").first.click()
    page.get_by_label("System prompt", exact=True).fill("Be quick.")
    expect(state).to_have_text("Valid")
    server.config.write_text("# theirs\n" + CONFIG, "utf-8")
    apply.click()
    expect(outside).to_contain_text("flexchat.toml was changed meanwhile")
    expect(apply).to_be_disabled()
    accessible(page)
    outside.get_by_role("button", name="Keep my text").click()
    expect(outside).to_contain_text("does not serve yet")
    apply.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".diff-line.removed").first).to_have_text("-# theirs\n")
    server.config.write_text(CONFIG, "utf-8")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog).to_have_count(0)
    outside.get_by_role("button", name="Take the file's text").click()
    expect(text).to_have_value(CONFIG)
    assert server.config.read_text("utf-8") == CONFIG

    written(CONFIG + "[[")
    expect(outside).to_contain_text("What was read before still serves.")
    expect(state).to_have_text("Invalid")


def test_the_form_builds_a_configuration(visit, server):
    """Services are added and tested, rules moved and duplicated, tools switched on; comments stay."""
    page = visit(server.url + "#/config")
    text = page.get_by_label("Text of the configuration")

    def tables():
        return tomllib.loads(text.input_value())

    page.get_by_role("button", name="one rehearsal").click()
    page.get_by_role("button", name="Test connection").click()
    expect(page.locator(".alert.ok")).to_contain_text("connected: 1 model")
    page.get_by_role("button", name="Add an LLM").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Kind").select_option("openai")
    dialog.get_by_label("Name").fill("one")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog).to_contain_text("There is one of this name.")
    dialog.get_by_label("Name").fill("cloud")
    dialog.get_by_role("button", name="Add").click()
    page.get_by_label("default_model", exact=True).nth(1).fill("gpt-x")
    expect(text).to_have_value(re.compile("gpt-x"))
    assert tables()["llms"]["cloud"] == {"provider": "openai", "default_model": "gpt-x"}

    page.get_by_role("tab", name="Rules").click()
    page.get_by_role("button", name="Duplicate rule 1").click()
    expect(page.locator(".rule-cards > li")).to_have_count(3)
    page.get_by_role("button", name="Add a condition").click()
    page.get_by_label("Condition 2: field").select_option("rag_results")
    page.get_by_label("Condition 2: value").select_option(label="match")
    expect(text).to_have_value(re.compile("rag_results"))
    assert tables()["responses"][1]["match"] == {"topic_contains": "weather", "rag_results": "match"}
    page.get_by_role("button", name="Move rule 2 up").click()
    expect(page.locator(".rule-cards > li").first).to_contain_text("rag_results is match")
    page.get_by_role("button", name="Delete rule 2").click()
    expect(page.locator(".rule-cards > li")).to_have_count(2)
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator(".rule-cards > li")).to_have_count(3)
    accessible(page)

    page.get_by_role("tab", name="Tools").click()
    page.get_by_role("switch", name="echo").check()
    expect(text).to_have_value(re.compile("echo"))
    assert [tool["name"] for tool in tables()["tools"]["registry"]] == ["calculator", "echo"]
    assert "# the first" in text.input_value()
    assert "# All the rest." in text.input_value()
    for tab in ("Topic", "Intent", "Document stores", "More"):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel", name=tab)).to_be_visible()
    accessible(page)

    page.get_by_role("link", name="Chat").click()
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Config")).to_be_visible()


def test_changes_are_undone_and_done_again_by_keys(visit, server):
    """Of the form too, step by step; what was just typed into a field is undone there."""
    page = visit(server.url + "#/config")
    text, state = page.get_by_label("Text of the configuration"), page.locator(".config-state")
    page.get_by_role("tab", name="Tools").click()
    echo = page.get_by_role("switch", name="echo")
    echo.check()
    expect(text).to_have_value(re.compile("echo"))
    page.get_by_role("tab", name="Rules").click()
    page.get_by_role("button", name="Move rule 2 up").click()
    expect(page.locator(".rule-cards > li").first).to_contain_text("every message")
    moved = text.input_value()
    page.evaluate("document.activeElement.blur()")  # as where the button is gone that was pressed
    page.keyboard.press("Control+z")
    expect(page.locator(".rule-cards > li").last).to_contain_text("every message")
    page.keyboard.press("Control+z")
    expect(text).to_have_value(CONFIG)
    expect(state).to_have_text("Clean")
    page.keyboard.press("Control+Shift+z")
    page.keyboard.press("Control+y")
    expect(text).to_have_value(moved)
    page.keyboard.press("Control+y")  # there is no more
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    expect(text).to_have_value(CONFIG)
    page.get_by_role("tab", name="Tools").click()
    expect(echo).not_to_be_checked()

    page.get_by_role("tab", name="Rules").click()
    page.locator(".fold-toggle").first.click()
    prompt = page.get_by_label("System prompt", exact=True)
    prompt.press("End")
    page.keyboard.type(" And brief.")
    expect(prompt).to_have_value("Be kind. And brief.")
    expect(text).to_have_value(re.compile("And brief"))
    page.keyboard.press("Control+z")
    expect(prompt).to_have_value("Be kind.")
    expect(text).to_have_value(CONFIG)
    page.keyboard.type("!")
    page.get_by_label("llm").first.focus()  # at once: the field has not been sent yet
    page.keyboard.press("Control+z")
    expect(prompt).to_have_value("Be kind.")
    expect(text).to_have_value(CONFIG)


def test_narrow_the_form_and_the_text_take_turns_and_tab_can_leave(visit, server):
    """At 380 px; Tab indents, Escape and Tab leave; a text that cannot be read stops the form."""
    page = visit(server.url + "#/config", size=NARROW, theme="dark")
    expect(page.get_by_role("tab", name="LLMs")).to_be_visible()
    fits(page)
    page.get_by_text("Text", exact=True).click()
    text = page.get_by_label("Text of the configuration")
    expect(text).to_be_visible()
    fits(page)
    text.press("Control+Home")
    text.press("Tab")
    expect(text).to_have_value("  " + CONFIG)
    text.press("Escape")
    text.press("Tab")
    expect(text).not_to_be_focused()
    text.fill(CONFIG + "[[")
    expect(page.locator(".config-state")).to_have_text("Invalid")
    page.get_by_text("Form", exact=True).click()
    expect(page.get_by_text("The form waits.")).to_be_visible()
    accessible(page)


def test_read_only_shows_all_and_says_why(visit, serve, demo_server):
    """Nothing can be edited: neither with --read-only nor where there is no file."""
    page = visit(serve(CONFIG, "--read-only").url + "#/config")
    expect(page.get_by_text("Read-only.")).to_be_visible()
    text = page.get_by_label("Text of the configuration")
    expect(text).to_have_value(CONFIG)
    expect(text).not_to_be_editable()
    page.get_by_role("button", name="one rehearsal").click()
    expect(page.get_by_label("default_model")).to_be_disabled()
    expect(page.get_by_role("button", name="Add an LLM")).to_be_disabled()
    demo = visit(demo_server.url + "#/config")
    expect(demo.get_by_text("This is the demo's configuration, in no file.")).to_be_visible()


YAML = """# Who answers.
include: [rules/more.yaml]   # and the rest of the rules
llms:
  one: {provider: rehearsal, default_model: rehearsal}  # the first

responses:
  - match: {topic_contains: weather}
    llm: one
    prompt: |
      Be kind.
      Be brief.
  # Invoices.
  - match: {topic_contains: invoice}
    llm: one
    prompt_file: invoices.md
"""
MORE = "# All the rest.\nresponses:\n  - llm: one\n    prompt: Hello.\n"


@pytest.fixture
def in_yaml(tmp_path):
    """A server whose configuration is in two YAML files and a prompt's."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "more.yaml").write_text(MORE)
    (tmp_path / "invoices.md").write_text("Answer about invoices.")
    server = WebServer(tmp_path, YAML, name="flexchat.yaml")
    yield server
    server.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_a_yaml_file_keeps_its_comments_and_the_files_beside_it(visit, in_yaml, size, theme):
    """Edited in the form: its text changes in that place only. The page says which file it changes."""
    page = visit(in_yaml.url + "#/config", size=size, theme=theme)
    expect(page.get_by_text("Only flexchat.yaml is shown and changed here.")).to_contain_text(
        "read together with invoices.md, rules/more.yaml: change those by hand"
    )
    page.get_by_role("tab", name="Rules").click()
    page.locator(".fold-toggle").first.click()
    page.get_by_label("System prompt", exact=True).fill("Be kind.\nBe quick.\n")
    expect(page.locator(".config-state")).to_have_text("Valid")
    accessible(page)
    fits(page)
    if size == NARROW:
        page.get_by_text("Text", exact=True).click()
    expect(page.get_by_label("Text of the configuration")).to_have_value(YAML.replace("brief", "quick"))
    accessible(page)
    page.get_by_role("button", name="Apply…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".diff-line.added")).to_contain_text("Be quick.")
    dialog.get_by_role("button", name="Apply").click()
    expect(page.locator(".toast")).to_contain_text("Applied.")
    assert in_yaml.config.read_text("utf-8") == YAML.replace("brief", "quick")
    assert (in_yaml.config.parent / "rules" / "more.yaml").read_text() == MORE


def test_what_an_included_file_makes_wrong_is_said_with_its_name(visit, in_yaml):
    """The text shown here has no such line."""
    (in_yaml.config.parent / "rules" / "more.yaml").write_text(MORE.replace("one", "onr"))
    page = visit(in_yaml.url + "#/config")
    text = page.get_by_label("Text of the configuration")
    text.fill(YAML.replace("kind", "calm"))

    expect(page.locator(".config-state")).to_have_text("Invalid")
    expect(page.locator(".config-problems")).to_contain_text(
        "rules/more.yaml:3: responses[2].llm: no LLM is called 'onr' (did you mean 'one'?)"
    )
    expect(page.locator(".editor-gutter .bad")).to_have_count(0)


SECRET = CONFIG.replace('provider = "rehearsal"', 'provider = "openai"\napi_key = "abcdefghij123456"', 1)


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_a_note_stays_on_its_line_and_says_what_it_says(visit, serve, size):
    """It covers no other line, and the mask leaves the words of the note alone."""
    page = visit(serve(SECRET).url + "#/config", size=size)
    if size == NARROW:
        page.locator(".config-views").get_by_text("Text").click()
    expect(page.locator(".config-problems")).to_contain_text("the secret is written in the file")
    for note in page.locator(".editor-note:visible").all():
        expect(note).to_contain_text("the secret is written")
        assert note.bounding_box()["height"] <= 21


SETTINGS = """
[[tools.mcp]]
name = "notes"
command = "never-started"

[tools.effects]
lease_s = 30
"""


def test_heads_of_cards_name_settings_in_words(visit, serve):
    """Tables by their names; nothing is shown as JSON."""
    page = visit(serve(CONFIG + SETTINGS).url + "#/config")
    page.get_by_role("tab", name="Tools").click()
    expect(page.locator(".fold-card", has_text="All tools").locator(".fold-summary")).to_have_text("1 mcp, effects")
    for tab in page.get_by_role("tab").all():
        tab.click()
        for text in page.locator(".fold-text:visible").all_inner_texts():
            assert not set(text) & set('{}[]"'), text
