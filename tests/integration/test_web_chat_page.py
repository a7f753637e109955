"""The page Chat, in a real browser."""

import json
import secrets
import select
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from playwright.sync_api import expect
from web_browser import NARROW, accessible, fits, lose_answers
from web_server import WebServer

CONFIG = """
[llms.main]
provider = "openai"
api_key = "test-key"
base_url = "{url}"
default_model = "m-1"
retries = 0

[[responses]]
llm = "main"

[conversations]
provider = "sqlite"
"""
NASTY = "<img src=x onerror=document.title='bad'> [go](javascript:alert(1)) ![p](https://example.com/p.png) **bold**"


class SlowModel:
    """Writes "Once upon" and, unless its reader is ``gone``, the rest after ``go``; a status makes it refuse."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.gone = threading.Event()
        self.status = 200
        self.rest = "a time."
        self.breaks = False
        outer = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                if outer.status != 200:
                    content = json.dumps({"error": {"message": "no such key"}}).encode()
                    self.send_response(outer.status)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                    return
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                self.say({"role": "assistant", "content": "Once upon "})
                while not outer.go.wait(0.01):
                    if select.select([self.connection], [], [], 0)[0]:  # nothing more is asked here: it was closed
                        outer.gone.set()
                        return
                if outer.breaks:
                    self.close_connection = True
                    return
                self.say({"content": outer.rest})
                self.say({}, "stop")
                self.wfile.write(b"data: [DONE]\n\n")

            def say(self, delta, reason=None):
                chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m-1"}
                chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": reason}]
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.flush()

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.go.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def slow_model():
    model = SlowModel()
    yield model
    model.close()


def ask(page, text):
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


@pytest.mark.slow
def test_chat_with_tools(visit, demo_server):
    """A message is answered with tools that show what they got and gave; the conversation is kept, renamed, deleted."""
    page, name = visit(demo_server.url), f"Sums {secrets.token_hex(3)}"  # no conversation of a test before is called so
    page.get_by_role("button", name="What is 17% of 230?").wait_for()
    accessible(page)
    ask(page, "What is 17% of 230, and what time is it in Tokyo?")
    page.get_by_role("link", name="Why this rule?").wait_for()
    calls = page.locator(".tool-call")
    expect(calls).to_have_count(2)
    expect(calls.first).to_contain_text("succeeded")
    calls.first.locator("summary").click()
    expect(calls.first).to_contain_text('"expression": "17% of 230"')
    expect(calls.first).to_contain_text("39.1")
    expect(page.locator(".answer-body .markdown")).to_contain_text("39.1")
    accessible(page)

    page.get_by_role("button", name="Rename").click()
    title = page.get_by_label("Title")
    expect(title).to_have_attribute("maxlength", "200")
    title.fill(name)
    page.route("**/api/conversations/*", lambda route: route.abort())
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("cannot be reached")
    page.unroute("**/api/conversations/*")
    expect(title).to_have_value(name)
    title.press("Enter")
    expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
    expect(page).to_have_title(f"{name} · FlexChat")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export as Markdown").click()
    assert "39.1" in download.value.path().read_text("utf-8")
    assert download.value.suggested_filename == f"{name}.md"
    page.get_by_role("link", name="Tools").click()
    expect(page).to_have_title("Tools · FlexChat")
    page.get_by_role("link", name="Chat").click()
    expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()

    again = visit(page.url, size=NARROW, theme="dark")
    expect(again.get_by_role("heading", level=1, name=name)).to_be_visible()
    expect(again.locator(".tool-call")).to_have_count(2)
    fits(again)
    again.get_by_role("button", name="Conversations").click()
    again.get_by_role("searchbox", name="Search conversations").fill("nowhere to be found")
    again.get_by_text("Nothing found.").wait_for()
    again.get_by_role("searchbox", name="Search conversations").fill("230")
    again.get_by_role("link", name=name).click()
    accessible(again)
    again.get_by_role("button", name="Delete").click()
    again.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(again.get_by_role("heading", level=1, name="New conversation")).to_be_visible()


@pytest.mark.slow
def test_streams_and_sessions(visit, serve, slow_model):
    """An answer goes on in its own session while another is shown; Stop ends it; unsent text stays; errors are told."""
    server = serve(CONFIG.format(url=slow_model.url))
    page = visit(server.url)
    ask(page, "Tell me a story")
    expect(page.locator(".answer")).to_contain_text("Once upon")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    message = page.get_by_label("Message", exact=True)
    message.fill("a second thought")

    page.get_by_role("link", name="New conversation").click()
    expect(message).to_have_value("")
    message.fill("unsent")
    slow_model.go.set()
    told = page.locator(".session-items").get_by_role("link", name="Tell me a story")
    expect(told.get_by_label("answering")).to_have_count(0)
    expect(page.get_by_role("heading", level=1, name="New conversation")).to_be_visible()
    told.click()
    expect(page.locator(".answer")).to_contain_text("Once upon a time.")
    expect(message).to_have_value("a second thought")
    page.get_by_role("link", name="New conversation").click()
    expect(message).to_have_value("unsent")

    slow_model.go.clear()
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("Once upon")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".answer")).to_contain_text("stopped")
    expect(page.locator(".answer")).to_contain_text("Once upon")
    assert slow_model.gone.wait(20)
    slow_model.rest = NASTY
    slow_model.go.set()
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".answer strong")).to_have_text("bold")
    expect(page.locator(".answer").last).to_contain_text("<img src=x")
    expect(page.locator(".asked")).to_have_text(["unsent", "unsent"])
    assert page.locator(".answer img, .answer a[href^='javascript']").count() == 0
    assert "bad" not in page.title()

    answer = page.locator(".answer .markdown p").last
    assert answer.evaluate("p => getComputedStyle(p).direction") == "ltr"
    assert answer.evaluate("p => (p.textContent = 'שלום', getComputedStyle(p).direction)") == "rtl"

    slow_model.status = 401
    ask(page, "And now?")
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("No answer.")
    accessible(page)
    slow_model.status, slow_model.rest = 200, "the end."
    problem.get_by_role("button", name="Try again").click()
    expect(page.locator(".answer").last).to_contain_text("the end.")

    slow_model.go.clear()
    ask(page, "And then?")
    expect(page.locator(".answer").last).to_contain_text("Once upon")
    page.reload()
    expect(page.locator(".answer").last).to_contain_text("Once upon")
    expect(page.locator(".asked").last).to_have_text("And then?")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    accessible(page)
    slow_model.go.set()
    expect(page.locator(".answer").last).to_contain_text("the end.")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    page.reload()
    expect(page.locator(".asked")).to_have_text(["unsent", "unsent", *["And now?"] * 2, "And then?"])
    expect(page.get_by_text("This answer was interrupted")).to_have_count(1)

    slow_model.go.clear()
    page.get_by_role("link", name="New conversation").click()
    ask(page, "A new one")
    expect(page.locator(".answer")).to_contain_text("Once upon")
    page.reload()
    expect(page.locator(".asked")).to_have_text("A new one")
    expect(page.locator(".answer")).to_contain_text("Once upon")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    page.goto(server.url + "#/chat/" + "0" * 32)
    expect(page.get_by_role("heading", name="This conversation is not kept")).to_be_visible()


@pytest.mark.slow
def test_an_answer_that_runs_is_joined_by_every_browser(visit, serve, slow_model):
    """The first of a conversation is not kept yet, and a later one begins while another page shows the conversation."""
    page = visit(serve(CONFIG.format(url=slow_model.url)).url)
    question = "Tell me a story" + " about a very long road" * 20
    ask(page, question)
    expect(page.locator(".answer")).to_contain_text("Once upon")

    other = visit(page.url)  # a browser of its own: it knows nothing of the first
    expect(other.locator(".answer")).to_contain_text("Once upon")
    expect(other.locator(".asked")).to_have_text([question])
    expect(other.get_by_text("This conversation is not kept")).to_have_count(0)
    expect(other.get_by_role("button", name="Stop")).to_be_visible()
    third = visit(page.url.split("#")[0])
    link = third.locator(".session-items").get_by_role("link", name="Tell me a story")
    expect(link.get_by_label("answering")).to_be_visible()
    link.click()
    expect(third.locator(".answer")).to_contain_text("Once upon")
    slow_model.go.set()
    for each in (page, other, third):
        expect(each.locator(".answer")).to_contain_text("Once upon a time.")
        expect(each.get_by_role("link", name="Why this rule?")).to_have_count(1)
        expect(each.get_by_role("button", name="Send")).to_be_visible()

    slow_model.go.clear()
    ask(page, "And then?")
    expect(page.locator(".answer")).to_have_count(2)
    expect(page.locator(".answer").last).to_contain_text("Once upon")
    other.evaluate("dispatchEvent(new Event('focus'))")
    expect(other.locator(".answer").last).to_contain_text("Once upon")
    expect(other.locator(".asked")).to_have_text([question, "And then?"])
    other.get_by_role("button", name="Stop").click()
    for each in (page, other):
        expect(each.locator(".answer").last).to_contain_text("stopped")
        expect(each.locator(".asked")).to_have_text([question, "And then?"])


@pytest.mark.slow
def test_an_answer_that_ends_with_its_page_can_be_asked_for_again(visit, serve, slow_model):
    """Where the server lets none go on: what there is of it is shown after the reload."""
    page = visit(serve(CONFIG.format(url=slow_model.url), "--unheard-seconds", "0").url)
    ask(page, "And then?")
    expect(page.locator(".answer")).to_contain_text("Once upon")
    page.reload()
    expect(page.get_by_text("This answer was interrupted")).to_be_visible()
    expect(page.locator(".answer")).to_contain_text("Once upon")
    assert slow_model.gone.wait(20)
    slow_model.go.set()
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".answer").last).to_contain_text("Once upon a time.")
    page.reload()
    expect(page.locator(".asked")).to_have_text(["And then?", "And then?"])


@pytest.mark.slow
def test_a_message_of_json_makes_a_title_of_words(visit, serve, slow_model):
    """As the page makes it at once, and as the server keeps it."""
    page = visit(serve(CONFIG.format(url=slow_model.url)).url)
    slow_model.go.set()
    ask(page, '{"city":"Rome", "days": [1, 2]}')
    expect(page.locator("h1")).to_have_text("city: Rome, days: 1, 2")
    expect(page.get_by_role("link", name="Why this rule?")).to_have_count(1)
    page.reload()
    expect(page.locator("h1")).to_have_text("city: Rome, days: 1, 2")
    expect(page.locator(".asked")).to_have_text(['{"city":"Rome", "days": [1, 2]}'])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "no such route", "code": 7}}, "no such route"),
        ({"detail": [{"loc": ["body"], "msg": "x"}], "title": "Refused"}, "Refused"),
        ({"errors": {"a": 1}}, "The server answered with status 418."),
    ],
)
def test_an_error_in_another_form_is_shown_as_text(visit, serve, slow_model, body, text):
    """Of a proxy in front of the server, for example."""
    page = visit(serve(CONFIG.format(url=slow_model.url)).url)
    page.route("**/chat/api", lambda route: route.fulfill(status=418, json=body))
    ask(page, "Tell me")
    expect(page.locator(".answer")).to_contain_text(text)
    expect(page.locator(".answer")).not_to_contain_text("[object")


# Breaks the connections of an answer behind their first piece, up to three times.
BREAKS = """
const real = window.fetch;
window.broken = 0;
window.fetch = async (path, options) => {
  const response = await real(path, options);
  if (!/^chat\\/api(\\/turns\\/.*\\/events)?$/.test(path) || window.broken >= 3) return response;
  let pieces = 0;
  const cut = new TransformStream({
    transform(piece, to) {
      if (++pieces === 1) return to.enqueue(piece);
      window.broken += 1;
      to.error(new TypeError("network error"));
    },
  });
  return new Response(response.body.pipeThrough(cut), response);
};
"""


@pytest.mark.slow
def test_an_answer_whose_connection_breaks_is_joined_again(visit, serve, slow_model):
    """Every piece once, and one turn; Stop ends it in the server, however often it was joined."""
    page = visit(serve(CONFIG.format(url=slow_model.url)).url)
    page.evaluate(BREAKS)
    ask(page, "Tell me")
    expect(page.locator(".answer")).to_contain_text("Once upon")
    slow_model.go.set()
    expect(page.locator(".answer .markdown")).to_have_text("Once upon a time.")
    expect(page.get_by_role("link", name="Why this rule?")).to_have_count(1)
    assert page.evaluate("window.broken") >= 1
    slow_model.go.clear()
    page.evaluate("window.broken = 1")
    ask(page, "And now?")
    expect(page.locator(".answer").last).to_contain_text("Once upon")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("This answer was interrupted")).to_be_visible()
    assert slow_model.gone.wait(20)
    expect(page.get_by_role("link", name="Why this rule?")).to_have_count(2)
    page.reload()
    expect(page.locator(".asked")).to_have_text(["Tell me", "And now?"])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kill", "close"])
def test_an_answer_goes_on_after_the_server_went_away(visit, tmp_path, slow_model, how):
    """The page joins again by itself, also one that was reloaded meanwhile; what is void is not shown."""
    config = CONFIG.format(url=slow_model.url) + "\n[tools.effects]\nlease_s = 1\n"
    server = WebServer(tmp_path, config)
    port = server.url.rstrip("/").rpartition(":")[2]
    try:
        page, other = visit(server.url), None
        ask(page, "Tell me")
        expect(page.locator(".answer")).to_contain_text("Once upon")
        getattr(server, how)()
        server = WebServer(tmp_path, config, "--port", port)
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        other = visit(page.url)
        slow_model.go.set()
        expect(page.locator(".answer .markdown")).to_have_text("Once upon a time.")
        expect(page.get_by_role("link", name="Why this rule?")).to_have_count(1)
        expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        page.reload()
        for each in (page, other):
            expect(each.locator(".asked")).to_have_text(["Tell me"])
        expect(page.locator(".answer .markdown")).to_have_text("Once upon a time.")
    finally:
        server.close()


@pytest.mark.slow
def test_a_page_opened_before_an_interrupted_turn_is_resumed_shows_it(visit, tmp_path, slow_model):
    config = CONFIG.format(url=slow_model.url) + "\n[tools.effects]\nlease_s = 600\n"  # looked for each 100 s
    remaining = WebServer(tmp_path, config)
    closing = WebServer(tmp_path)
    try:
        page = visit(closing.url)
        ask(page, "Tell me")
        expect(page.locator(".answer")).to_contain_text("Once upon")
        closing.close()
        path = page.url.removeprefix(closing.url)
        page.close()
        page = visit(remaining.url + path)
        expect(page.locator(".asked")).to_have_text(["Tell me"])
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        [turn] = httpx.get(remaining.url + "api/turns", params={"state": "interrupted"}).json()["turns"]
        slow_model.go.set()
        assert httpx.post(f"{remaining.url}api/turns/{turn['id']}/resume").status_code == 202
        expect(page.locator(".answer .markdown")).to_have_text("Once upon a time.")
        expect(page.get_by_role("link", name="Why this rule?")).to_have_count(1)
    finally:
        closing.close()
        remaining.close()


@pytest.mark.slow
def test_a_page_opened_while_the_first_turn_ends_shows_it(visit, serve, slow_model):
    """The conversation is requested just before it is stored, and the response arrives after the turn's end."""
    server = serve(CONFIG.format(url=slow_model.url))
    page = visit(server.url)
    ask(page, "Tell me")
    expect(page.locator(".answer")).to_contain_text("Once upon")

    def end_the_turn(route):
        response = route.fetch()
        assert response.status == 404
        slow_model.go.set()
        expect(page.get_by_role("link", name="Why this rule?")).to_have_count(1)
        route.fulfill(response=response)

    other = visit(server.url)
    other.route("**/api/conversations/*", end_the_turn, times=1)
    other.goto(page.url)
    expect(other.locator(".asked")).to_have_text(["Tell me"])
    expect(other.locator(".answer .markdown")).to_have_text("Once upon a time.")


@pytest.mark.slow
def test_the_page_of_a_running_turn_shows_its_end(visit, serve, slow_model):
    """It is opened while the turn runs, and nothing is clicked afterwards."""
    server = serve(CONFIG.format(url=slow_model.url))
    page = visit(server.url)
    ask(page, "Tell me")
    expect(page.locator(".answer")).to_contain_text("Once upon")
    (turn,) = httpx.get(f"{server.url}api/turns").json()["turns"]
    steps = visit(f"{server.url}#/activity/turns/{turn['id']}")
    expect(steps.get_by_text("The turn is still running")).to_be_visible()
    slow_model.go.set()
    expect(steps.get_by_text("The turn is done")).to_be_visible()


@pytest.mark.slow
def test_an_answer_is_not_taken_for_the_stopped_one_before_it(visit, serve, slow_model):
    """Asked again before the page has heard that the server keeps what was stopped."""
    server = serve(CONFIG.format(url=slow_model.url))
    page = visit(server.url)
    kept = "**/api/conversations/*"
    page.route(kept, lambda route: route.fulfill(status=503))
    ask(page, "Tell me")
    expect(page.locator(".answer")).to_contain_text("Once upon")
    page.get_by_role("button", name="Stop").click()
    again = page.get_by_role("button", name="Ask again")
    expect(again).to_be_visible()
    assert slow_model.gone.wait(20)
    page.unroute(kept)
    slow_model.go.set()
    again.click()
    expect(page.locator(".asked")).to_have_text(["Tell me", "Tell me"])
    expect(page.get_by_text("This answer was interrupted")).to_have_count(1)
    expect(page.locator(".answer").filter(has_text="Once upon a time.")).to_have_count(1)


@pytest.mark.slow
def test_what_was_stopped_or_failed_looks_the_same_after_a_reload(visit, serve, slow_model):
    """The question, what was said and why it ended; "Why this rule?" tells of that turn, and asks for nothing anew."""
    server = serve(CONFIG.format(url=slow_model.url))
    page = visit(server.url)
    explained = []
    page.on("request", lambda request: explained.append(request) if "api/explain" in request.url else None)
    ask(page, "Stop me")
    expect(page.locator(".answer")).to_contain_text("Once upon")
    page.get_by_role("button", name="Stop").click()
    whys = page.get_by_role("link", name="Why this rule?")
    expect(whys).to_have_count(1)
    slow_model.status = 401
    ask(page, "Fail")
    expect(whys).to_have_count(2)
    slow_model.status = 200
    slow_model.go.set()
    ask(page, "Answer")
    expect(whys).to_have_count(3)
    expect(page.locator(".answer").last).to_contain_text("Once upon a time.")
    expect(page.locator(".markdown.plain")).to_have_count(0)  # all is rendered
    live = page.locator(".message").all_inner_texts()
    page.reload()
    expect(whys).to_have_count(3)
    expect(page.locator(".markdown.plain")).to_have_count(0)
    expect(page.locator(".answer").last).to_contain_text("Once upon a time.")
    assert page.locator(".message").all_inner_texts() == live
    assert "stopped" in live[1]
    assert "no such key" in live[3]

    whys.first.click()
    expect(page.get_by_role("heading", level=1, name="Why this rule?")).to_be_visible()
    expect(page.get_by_role("note")).to_have_text("Rule 1 was chosen, with main / m-1.")
    expect(page.get_by_label("Message")).to_contain_text("Stop me")
    expect(page.get_by_label("Message")).to_contain_text("stopped")
    expect(page.locator(".timeline > li")).to_have_count(5)
    accessible(page)
    page.get_by_role("link", name="Back to the conversation").click()
    whys.last.click()
    expect(page.get_by_role("note")).to_have_text("Rule 1 answered, with main / m-1.")
    expect(page.get_by_label("Answers of the model")).to_contain_text("Round 1 main / m-1")
    told = page.locator("main").inner_text()
    page.reload()
    expect(page.get_by_label("Answers of the model")).to_be_visible()
    assert page.locator("main").inner_text() == told
    assert explained == []
    page.goto(page.url[:-4] + "none")
    expect(page.get_by_role("heading", name="This turn is not kept")).to_be_visible()


def look_again(page):
    """As if its reader came back to the window."""
    page.evaluate("dispatchEvent(new Event('focus'))")


@pytest.mark.slow
def test_two_windows(visit, serve, slow_model):
    """What one does with a conversation, the other shows when it is looked at: another turn, a title, its end."""
    slow_model.go.set()
    first = visit(serve(CONFIG.format(url=slow_model.url)).url)
    ask(first, "One")
    first.get_by_role("link", name="Why this rule?").wait_for()
    second = first.context.new_page()
    second.goto(first.url)
    expect(second.locator(".asked")).to_have_count(1)
    ask(second, "Two")
    expect(second.get_by_role("link", name="Why this rule?")).to_have_count(2)
    look_again(first)
    expect(first.locator(".asked")).to_have_text(["One", "Two"])
    ask(first, "Three")
    expect(first.get_by_role("link", name="Why this rule?")).to_have_count(3)
    ask(second, "Four")
    expect(second.locator(".asked")).to_have_text(["One", "Two", "Three", "Four"])
    expect(second.get_by_role("link", name="Why this rule?")).to_have_count(4)

    second.get_by_role("button", name="Delete").click()
    second.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(second.get_by_role("heading", level=1, name="New conversation")).to_be_visible()
    ask(first, "Five")
    expect(first.get_by_text("This conversation was deleted elsewhere.")).to_be_visible()
    expect(first.locator(".asked")).to_have_count(3)
    accessible(first)
    first.locator(".log").get_by_role("button", name="New conversation").click()
    expect(first.get_by_label("Message", exact=True)).to_have_value("Five")
    second.reload()
    expect(second.locator(".session-items > li")).to_have_count(0)


@pytest.mark.slow
def test_without_conversations_the_page_says_that_nothing_is_kept(visit, serve, slow_model):
    """Before anything is written, and again when it is gone."""
    slow_model.go.set()
    server = serve(CONFIG.format(url=slow_model.url).partition("[conversations]")[0])
    page = visit(server.url, size=NARROW)
    expect(page.locator(".welcome .not-kept")).to_contain_text("[conversations]")
    fits(page)
    ask(page, "One")
    page.get_by_role("link", name="Why this rule?").wait_for()
    page.reload()
    expect(page.get_by_role("heading", name="This conversation is not kept")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    accessible(page)
    page.locator(".log").get_by_role("button", name="New conversation").click()
    expect(page.get_by_role("heading", level=1, name="New conversation")).to_be_visible()


KEPT = """
[llms.one]
provider = "rehearsal"

[[responses]]
llm = "one"
model = "rehearsal"

[conversations]
path = "c.db"
"""


@pytest.mark.slow
def test_a_message_whose_answer_is_lost_is_not_answered_twice(visit, serve):
    server = serve(KEPT)
    page = visit(server.url)
    keys = lose_answers(page, "chat/api", 1)
    page.get_by_role("textbox", name="Message").fill("Hello")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)
    expect(page.locator(".answer .markdown").last).not_to_be_empty()
    assert len(httpx.get(server.url + "api/turns").json()["turns"]) == 1
    assert len(set(keys)) == 1


@pytest.mark.slow
def test_an_answer_is_shown_below_the_pages_headings_and_turns_nothing_around(visit, serve):
    """Its headings begin at h3; a character that reverses text is shown as one that cannot be."""
    config = """
[llms.main]
provider = "scripted"
default_model = "m"
replies = [{ text = "# Top\\n\\n## Next\\n\\nfile\\u202Egpj.exe" }]

[[responses]]
llm = "main"
"""
    page = visit(serve(config).url)
    ask(page, "Safe\u202eelif")
    page.get_by_role("link", name="Why this rule?").wait_for()
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    expect(page.get_by_role("heading", level=3, name="Top")).to_be_visible()
    expect(page.get_by_role("heading", level=4, name="Next")).to_be_visible()
    assert "\u202e" not in page.inner_text("body")
    expect(page.locator(".answer")).to_contain_text("file\ufffdgpj.exe")
    accessible(page)


@pytest.mark.slow
def test_an_answer_that_breaks_off_is_not_called_no_answer(visit, serve, slow_model):
    """What came of it stays above the error."""
    page = visit(serve(CONFIG.format(url=slow_model.url)).url)
    ask(page, "Tell me")
    expect(page.locator(".answer")).to_contain_text("Once upon")
    slow_model.breaks = True
    slow_model.go.set()
    expect(page.get_by_text("The answer broke off.")).to_be_visible()
    expect(page.locator(".answer")).to_contain_text("Once upon")
    expect(page.get_by_text("No answer.")).to_have_count(0)
