"""What the page Chat makes of a long answer, of many turns, and of calls that cannot be read."""

import itertools

import pytest
from playwright.sync_api import expect
from web_server import WebServer

pytestmark = pytest.mark.slow

BROKEN = '{"expression": 1 +'
TABLE = "| left | right |\\n|---|--:|\\n| 1 | 2 |"
CONFIG = f"""
[llms.main]
provider = "scripted"
default_model = "m"
repeat = true
replies = [
  {{ tool_calls = [{{ name = "calculator", arguments = '{BROKEN}' }}] }},
  {{ text = "{TABLE}" }},
]

[[responses]]
llm = "main"
tools = {{ enabled = true }}

[[tools.registry]]
name = "calculator"

[conversations]
provider = "sqlite"
"""

# In place of the server's, an answer that the test writes: say("text", {…}).
WRITTEN_HERE = """
const real = window.fetch;
window.fetch = (path, options) => {
  if (path !== "chat/api") return real(path, options);
  const body = new ReadableStream({
    start(to) {
      const bytes = new TextEncoder();
      window.say = (event, data) => to.enqueue(bytes.encode(`event: ${event}\\ndata: ${JSON.stringify(data)}\\n\\n`));
    },
  });
  return Promise.resolve(new Response(body, { status: 200, headers: { "content-type": "text/event-stream" } }));
};
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = WebServer(tmp_path_factory.mktemp("chat"), CONFIG)
    yield server
    server.close()


def ask(page, text):
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def test_a_call_that_cannot_be_read_shows_its_text_as_it_comes_and_after_a_reload(visit, server):
    """What the model wrote, not {}; and its table stands as it was meant."""
    page = visit(server.url)
    ask(page, "Add")
    expect(page.locator(".answer td.align-right")).to_have_css("text-align", "right")
    shown = []
    for _ in range(2):
        call = page.locator(".tool-call")
        expect(call.locator(".tool-call-preview")).to_have_text(BROKEN)
        call.locator("summary").click()
        expect(call.get_by_role("group", name="arguments")).to_have_text(BROKEN)
        shown.append(call.locator(".tool-call-body").inner_text())
        page.reload()
    assert shown[0] == shown[1]


def test_many_turns_are_rendered_in_few_requests(visit, server):
    """A conversation of 120 turns: one request for all its Markdown, and what it says is in its place."""
    page = visit(server.url)
    turns = [
        {
            "id": str(number),
            "messages": [
                {"role": "user", "content": f"question {number}"},
                {"role": "assistant", "parts": [{"type": "text", "text": f"**answer {number}**"}]},
            ],
        }
        for number in range(120)
    ]
    told = {"id": "many", "title": "Many", "turns": turns, "updated_at": "2026-01-01T00:00:00Z"}
    page.route("**/api/conversations/many", lambda route: route.fulfill(json=told))
    sent = []
    page.on("request", lambda request: sent.append(request) if request.url.endswith("/api/markdown") else None)
    page.goto(server.url + "#/chat/many")
    expect(page.locator(".answer strong")).to_have_text([f"answer {number}" for number in range(120)])
    assert len(sent) == 2  # at most 100 texts each
    lengths = page.evaluate(
        """async () => {
          const { requestBatches } = await import("./static/js/markdown.js");
          const all = [30000, 30000, 10, 200000, 1, 1].map((length) => ({ text: "x".repeat(length) }));
          return requestBatches(all).map((some) => some.map((one) => one.text.length));
        }"""
    )
    assert lengths == [[30000], [30000, 10], [200000], [1, 1]]


def test_the_page_scrolls_along_until_its_reader_scrolls_up(visit, server):
    """However fast the answer comes; and again once they are back at its end."""
    page = visit(server.url)
    page.evaluate(WRITTEN_HERE)
    ask(page, "A long one")
    log, latest = page.locator(".log"), page.get_by_role("button", name="Latest")
    number = itertools.count()

    def left():
        return log.evaluate("log => Math.round(log.scrollHeight - log.scrollTop - log.clientHeight)")

    def follows():
        """The end comes into view; a busy machine draws late."""
        page.wait_for_function(
            "() => { const log = document.querySelector('.log');"
            " return log.scrollHeight - log.scrollTop - log.clientHeight <= 1.5; }"
        )
        assert left() <= 1

    def write():
        """Forty pieces, some of them of several lines, within some frames and between them."""
        page.evaluate(
            """async (from) => {
              while (!window.say) await new Promise((go) => setTimeout(go, 5));
              for (let piece = 0; piece < 40; piece++) {
                say("text", { index: 0, text: `Line ${from} ${piece}\\n\\n`.repeat(piece % 3 ? 1 : 5) });
                if (piece % 4) await new Promise((go) => (piece % 2 ? setTimeout(go, 3) : requestAnimationFrame(go)));
              }
              for (let frame = 0; frame < 4; frame++) await new Promise(requestAnimationFrame);
            }""",
            next(number),
        )

    for _ in range(4):
        write()
        follows()
        expect(latest).to_be_hidden()
    log.evaluate("log => log.scrollBy(0, -30)")  # a small step counts, too
    write()
    assert left() > 500
    expect(latest).to_be_visible()
    log.evaluate("log => log.scrollBy(0, 300)")  # down, but not to the end
    write()
    assert left() > 500
    log.evaluate("log => log.scrollTo(0, log.scrollHeight)")
    write()
    follows()
    log.evaluate("log => log.scrollBy(0, -900)")
    write()
    latest.click()
    write()
    follows()
    expect(latest).to_be_hidden()


def test_the_page_says_what_is_waited_for(visit, server):
    """Phases, the model by its name, tools; with the seconds once they are some."""
    page = visit(server.url)
    page.clock.install()
    page.evaluate(WRITTEN_HERE)
    ask(page, "How long?")
    page.wait_for_function("() => window.say")
    status = page.locator(".answer-status")

    def say(event, **data):
        page.evaluate("([event, data]) => say(event, data)", [event, data])

    say("turn_started", id="t")
    for phase, words in (
        ("topic detection", "Detecting the topic…"),
        ("rag collection", "Searching documents…"),
        ("intent detection", "Detecting the intent…"),
    ):
        say("phase_started", phase=phase)
        expect(status).to_have_text(words)
    say("model_request_started", llm="main", model="small")
    page.clock.run_for(5_000)
    expect(status).to_have_text("Detecting the intent… 5 s")
    say("phase_started", phase="response generation")
    say("model_request_started", llm="main", model="large")
    expect(status).to_have_text("Waiting for large…")
    page.clock.run_for(61_000)
    expect(status).to_have_text("Waiting for large… 61 s")
    say("tool_started", call_id="1", name="calculator", arguments={})
    expect(status).to_have_text("Running calculator…")
    say("tool_started", call_id="2", name="clock", arguments={})
    say("tool_finished", call_id="2", tool="clock", params={}, result={"success": True}, iteration=1)
    expect(status).to_have_text("Running calculator…")
    say("text", index=0, text="Done")
    page.clock.run_for(10_000)
    expect(status).to_have_text("Writing…")
