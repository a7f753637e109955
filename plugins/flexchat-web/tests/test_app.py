"""The app finds operations, checks requests, sends answers, and lets no exception out."""

import asyncio
import json
import logging

import attrs
import pytest
from flexchat import ConfigError
from flexchat_web.app import Routes, WebApp, create_app
from flexchat_web.operations import Event, Json, Operation, Stream, Text
from flexchat_web.problems import ApiError
from flexchat_web.sending import _Streaming, encoded, event_bytes
from flexchat_web.serving import Serving, Settings
from hypothesis import given
from hypothesis import strategies as st

OBJECT = {"type": "object"}


def an_operation(handle, method="POST", path="/try", **more):
    return Operation(
        method=method, path=path, name="try", summary="Try.", tag="server", handle=handle, answers={200: OBJECT}, **more
    )


async def echo(call):
    return Json({"body": call.body, "query": dict(call.query), "path": dict(call.path), "tenant": call.tenant})


@pytest.fixture
async def with_operations(config_file, plugins, client_of):
    """Make a client of an app that has only the operations given."""
    made = []

    def make(*operations, **settings):
        app = WebApp(Serving(config_file, plugins, Settings(**settings)))
        app.operations = operations
        app._routes = Routes(operations)
        made.append(app)
        return client_of(app)

    yield make
    for app in made:
        await app.aclose()


BODY = {
    "type": "object",
    "properties": {"prompt": {"type": "string"}, "count": {"type": "integer"}},
    "required": ["prompt"],
    "additionalProperties": False,
}


async def post(client, content, content_type="application/json", path="/try"):
    headers = {"content-type": content_type} if content_type else {}
    return await client.post(path, content=content, headers=headers)


async def test_a_body_that_fits_reaches_the_operation(with_operations):
    client = with_operations(an_operation(echo, body=BODY))
    assert (await post(client, b'{"prompt": "hi", "count": 2}')).json()["body"] == {"prompt": "hi", "count": 2}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"prompt": "a"} x', "not JSON"),
        (b'\xff{"prompt": "a"}', "UTF-8"),
        (b'{"prompt": "\xff"}', "UTF-8"),
        (b'{"prompt": NaN}', "NaN"),
        (b'{"prompt": Infinity}', "Infinity"),
        (b'{"prompt": -Infinity}', "Infinity"),
        (b'{"prompt": 1e999}', "too large"),
        (b'{"prompt": "a", "prompt": "b"}', "twice"),
        (b'{"prompt": "a", "count": ' + b"9" * 10_000 + b"}", "digits"),
        (b"[" * 100_000, "levels"),
        (b"[" * 65 + b"]" * 65, "levels"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "levels"),
        (b"[]", "must be an object"),
        (b"null", "must be an object"),
        (b"{}", "prompt"),
        (b'{"prompt": 1}', "must be a string"),
        (b'{"prompt": "a", "count": "2"}', "must be an integer"),
        (b'{"prompt": "a", "promt": "b"}', "did you mean"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # pytest tells child processes the test's id
)
async def test_a_body_that_cannot_be_used_is_told_what_is_wrong(with_operations, content, said):
    """Hostile JSON: deep, twice, not finite, long numbers, no UTF-8."""
    answer = await post(with_operations(an_operation(echo, body=BODY)), content)
    assert answer.status_code == 400
    problem = answer.json()
    assert said in problem["detail"]
    assert problem["error"] == problem["detail"]
    assert len(answer.content) < 3_000


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "", "application/x-www-form-urlencoded", "multipart/form-data", "application/json; charset=latin-1"],
)
async def test_only_application_json_is_read(with_operations, content_type):
    """A form of another site can send text/plain without a preflight."""
    answer = await post(with_operations(an_operation(echo, body=BODY)), b'{"prompt": "a"}', content_type)
    assert answer.status_code == 415


async def test_the_charset_may_be_named(with_operations):
    client = with_operations(an_operation(echo, body=BODY))
    assert (await post(client, b'{"prompt": "a"}', 'application/json; charset="UTF-8"')).status_code == 200


async def test_halves_of_surrogate_pairs_are_replaced(with_operations):
    client = with_operations(an_operation(echo, body=OBJECT))
    answer = await post(client, rb'{"prompt": "a\ud800b", "\udfff": ["\ud83d\ude00"]}')
    assert answer.json()["body"] == {"prompt": "a\ufffdb", "\ufffd": ["\U0001f600"]}


async def test_a_body_above_the_limit_is_413(with_operations):
    client = with_operations(an_operation(echo, body=BODY), max_body_bytes=100)
    assert (await post(client, b" " * 101)).status_code == 413

    async def chunks():
        for _ in range(11):
            yield b" " * 10

    assert (await post(client, chunks())).status_code == 413, "also without a Content-Length"


async def test_an_operation_without_body_takes_none(with_operations):
    client = with_operations(an_operation(echo))
    assert (await post(client, b"{}")).status_code == 400
    assert (await client.post("/try")).status_code == 200


QUERY = {
    "limit": {"type": "integer", "minimum": 1, "maximum": 10, "default": 5},
    "refresh": {"type": "boolean"},
    "search": {"type": "string", "maxLength": 5},
}


async def test_the_query_is_converted_and_has_its_defaults(with_operations):
    client = with_operations(an_operation(echo, method="GET", query=QUERY))
    query = (await client.get("/try?refresh=true&search=a%20b")).json()["query"]
    assert query == {"limit": 5, "refresh": True, "search": "a b"}


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=11", "limit=x", "limit=1.5", "limit=1_0", "limit=٣", "limit=", "limit=1&limit=2", "refresh=1",
     "search=abcdef", "other=1", "limit=" + "9" * 5_000, "search=%ff", "&".join(["x=1"] * 60)],
)  # fmt: skip
async def test_a_query_that_does_not_fit_is_400(with_operations, query):
    client = with_operations(an_operation(echo, method="GET", query=QUERY))
    answer = await client.get(f"/try?{query}")
    assert answer.status_code == 400
    assert answer.json()["detail"]


async def test_a_problem_of_a_query_names_the_parameter(with_operations):
    client = with_operations(an_operation(echo, method="GET", query=QUERY))
    problem = (await client.get("/try?limit=0")).json()
    assert problem["detail"] == "the query does not match the schema: limit must be at least 1 (got 0)"


async def test_a_query_of_ridiculous_length_is_400(with_operations):
    client = with_operations(an_operation(echo, method="GET", query=QUERY))
    assert (await client.get(f"/try?search={'a' * 10_000}")).status_code == 400


async def test_path_parameters_hold_slashes_only_where_they_may(with_operations):
    client = with_operations(
        an_operation(echo, method="GET", path="/one/{id}/x"), an_operation(echo, method="GET", path="/all/{id:path}")
    )
    assert (await client.get("/one/a%20b/x")).json()["path"] == {"id": "a b"}
    assert (await client.get("/all/a/b")).json()["path"] == {"id": "a/b"}
    assert (await client.get("/one/a/b/x")).status_code == 404


async def test_an_unknown_path_is_404_and_an_unknown_method_405_with_allow(client):
    assert (await client.get("/nothing")).status_code == 404
    answer = await client.delete("/api/config")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, PUT, HEAD, OPTIONS"
    assert (await client.request("TRACE", "/api/config")).status_code == 405


async def test_head_and_options_are_answered_without_a_body(client):
    head = await client.head("/api/config/schema")
    assert head.status_code == 200
    assert head.content == b""
    options = await client.options("/api/config")
    assert options.status_code == 204
    assert "PUT" in options.headers["allow"]


async def test_an_operation_that_edits_needs_the_right(with_operations):
    client = with_operations(an_operation(echo, edits=True), edit=False)
    answer = await client.post("/try")
    assert answer.status_code == 403
    assert "--edit" in answer.json()["detail"]


async def test_an_unexpected_error_is_a_number_for_the_client_and_a_masked_text_for_the_log(
    with_operations, caplog, monkeypatch
):
    """The client learns nothing of it; the log tells all but secrets."""

    async def fail(call):
        raise RuntimeError("boom with password=hunter2hunter2")

    with caplog.at_level(logging.ERROR):
        answer = await with_operations(an_operation(fail)).post("/try")
    assert answer.status_code == 500
    assert "boom" not in answer.text
    number = answer.json()["detail"].rsplit(" ", 1)[1]
    assert number in caplog.text
    assert "boom" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_problem_tells_its_kind_and_its_flaws(with_operations):
    async def fail(call):
        raise ApiError(409, "Not now.", kind="busy", headers={"retry-after": "3"}, more=1)

    answer = await with_operations(an_operation(fail)).post("/try")
    assert answer.headers["retry-after"] == "3"
    assert answer.json() == {
        "type": "urn:flexchat:problem:busy", "title": "Conflict", "status": 409, "detail": "Not now.",
        "error": "Not now.", "more": 1,
    }  # fmt: skip


async def test_text_and_nothing_are_answers_too(with_operations):
    async def text(call):
        return Text("häh", media_type="text/markdown", headers={"x-a": "b"})

    async def nothing(call):
        return Text(status=204)

    client = with_operations(an_operation(text), an_operation(nothing, method="DELETE"))
    answer = await client.post("/try")
    assert (answer.text, answer.headers["content-type"]) == ("häh", "text/markdown; charset=utf-8")
    answer = await client.delete("/try")
    assert (answer.status_code, answer.content) == (204, b"")


def streamed(*events, error=None):
    async def handle(call):
        async def generate():
            for event in events:
                yield event
            if error is not None:
                raise error

        return Stream(generate())

    return handle


async def test_events_are_streamed(with_operations):
    client = with_operations(an_operation(streamed(Event("text", {"a": 1}), Event(None, "[DONE]"), Event("x", "a\nb"))))
    answer = await client.post("/try")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.text == 'event: text\ndata: {"a":1}\n\ndata: [DONE]\n\nevent: x\ndata: a\ndata: b\n\n'


async def test_what_fails_before_the_first_event_is_an_ordinary_problem(with_operations):
    client = with_operations(an_operation(streamed(error=ApiError(404, "no such run"))))
    answer = await client.post("/try")
    assert (answer.status_code, answer.json()["detail"]) == (404, "no such run")


async def test_what_fails_later_is_the_last_event(with_operations, caplog):
    for error, status in ((ApiError(502, "gone"), 502), (RuntimeError("secret boom"), 500)):
        client = with_operations(an_operation(streamed(Event("text", {}), error=error)))
        last = (await client.post("/try")).text.strip().split("\n\n")[-1]
        assert last.startswith("event: error\n")
        assert json.loads(last.split("data: ")[1])["status"] == status
        assert "boom" not in last


async def test_openais_stream_ends_with_an_error_in_openais_form(with_operations):
    handle = streamed(Event(None, {}), error=ApiError(429, "slow down", code="rate_limit_exceeded"))
    answer = await with_operations(an_operation(handle, openai_errors=True)).post("/try")
    error = json.loads(answer.text.strip().split("data: ")[-1])["error"]
    assert error == {
        "message": "slow down", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"
    }  # fmt: skip


async def test_a_silent_stream_is_kept_alive(with_operations, monkeypatch):
    """The event comes after a comment was sent, however long that takes."""
    monkeypatch.setattr("flexchat_web.sending.KEEP_ALIVE_SECONDS", 0.01)
    commented = asyncio.Event()
    piece = _Streaming._piece

    async def sent(streaming, data):
        await piece(streaming, data)
        if data.startswith(b": keep-alive"):
            commented.set()

    monkeypatch.setattr(_Streaming, "_piece", sent)

    async def handle(call):
        async def generate():
            await commented.wait()
            yield Event("text", {})

        return Stream(generate())

    answer = await with_operations(an_operation(handle)).post("/try")
    assert answer.text.startswith(": keep-alive\n\n")
    assert answer.text.endswith("event: text\ndata: {}\n\n")


def raw_request(app, body=b"", **more):
    """What ASGI servers do: the scope of a request, the queue of its messages, and a list of what is sent."""
    incoming: asyncio.Queue = asyncio.Queue()
    incoming.put_nowait({"type": "http.request", "body": body, "more_body": False})
    sent = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/try", "query_string": b"", "scheme": "http",
        "headers": [(b"host", b"localhost")], **more,
    }  # fmt: skip
    return incoming, sent, asyncio.create_task(app(scope, incoming.get, send))


@pytest.mark.parametrize("kind", ["stream", "json"])
async def test_a_client_that_goes_ends_the_work_at_once(config_file, plugins, kind):
    """Closing the connection cancels the turn, streamed or not."""
    ended = asyncio.Event()

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def handle(call):
        async def generate():
            yield Event("text", {})
            await wait()

        if kind == "json":
            await wait()
        return Stream(generate())

    app = WebApp(Serving(config_file, plugins, Settings()))
    app._routes = Routes([an_operation(handle)])
    incoming, _, task = raw_request(app)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not ended.is_set()
    incoming.put_nowait({"type": "http.disconnect"})
    await asyncio.wait_for(ended.wait(), 60)
    await asyncio.wait_for(task, 60)
    await app.aclose()


async def test_a_reader_that_does_not_read_is_given_up(config_file, plugins, monkeypatch, caplog):
    """That is its affair, and no incident of the server's."""
    monkeypatch.setattr("flexchat_web.sending.SLOW_READER_SECONDS", 0.02)
    closed = asyncio.Event()

    async def handle(call):
        async def generate():
            try:
                while True:
                    yield Event("text", {})
            finally:
                closed.set()

        return Stream(generate())

    app = WebApp(Serving(config_file, plugins, Settings()))
    app._routes = Routes([an_operation(handle)])

    async def receive():
        if not asked:
            asked.append(1)
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.Event().wait()

    async def send(message):
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()  # the buffers are full

    asked = []
    scope = {"type": "http", "method": "POST", "path": "/try", "headers": [(b"host", b"localhost")]}
    await asyncio.wait_for(app(scope, receive, send), 60)
    assert closed.is_set()
    assert not caplog.records
    await app.aclose()


async def test_a_body_that_does_not_come_is_408(config_file, plugins):
    """Slow client: half a body and then nothing."""
    app = WebApp(Serving(config_file, plugins, Settings(body_seconds=0.05)))
    app._routes = Routes([an_operation(echo, body=BODY)])
    incoming, sent, task = raw_request(app)
    incoming.get_nowait()
    incoming.put_nowait({"type": "http.request", "body": b'{"pro', "more_body": True})
    await asyncio.wait_for(task, 60)
    assert sent[0]["status"] == 408
    await app.aclose()


async def test_the_app_can_be_mounted_in_another(new_app, client_of):
    """Starlette's Mount, FastAPI's mount: path and root_path as ASGI says."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    client = client_of(Starlette(routes=[Mount("/ai", new_app())]))
    assert (await client.get("/ai/api/config")).status_code == 200
    assert (await client.get("/ai/openapi.json")).json()["servers"] == [{"url": "/ai"}]
    assert (await client.get("/ai/")).status_code == 200
    assert (await client.get("/ai/static/nothing")).status_code == 404


async def test_lifespan_is_answered_and_closes(new_app):
    app, sent = new_app(), []
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive():
        return next(messages)

    async def send(message):
        sent.append(message["type"])

    await app({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_an_app_without_a_config_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FLEXCHAT_CONFIG", raising=False)
    with pytest.raises(ConfigError, match=r"flexchat\.toml"):
        create_app()


def test_two_operations_on_one_path_and_method_are_a_mistake():
    with pytest.raises(ValueError, match="two operations"):
        Routes([an_operation(echo), an_operation(echo)])


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static//etc/passwd", "/static/\\..\\app.py",
     "/static/%00", "/static/", "/static/css", "/static/" + "a" * 5_000, "/static/....//app.py"],
)  # fmt: skip
async def test_nothing_but_the_pages_own_files_is_served(client, path):
    """Path traversal."""
    assert (await client.get(path)).status_code == 404


async def test_the_page_is_only_read(client):
    assert (await client.get("/")).headers["content-type"].startswith("text/html")
    answer = await client.post("/")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(DATA)
def test_everything_json_can_hold_is_encoded(data):
    """NaN and Infinity become null; halves of pairs are replaced; the rest stays as it is."""

    def plain(value):
        if isinstance(value, float) and value - value != 0:
            return None
        if isinstance(value, list):
            return [plain(item) for item in value]
        return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value

    assert json.loads(encoded(data)) == plain(data)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_reader_of_events_reads_the_text_that_was_written(text):
    """Law of the format: line ends inside a text come back as \\n."""
    body = event_bytes(Event("text", text)).decode()
    assert body.endswith("\n\n")
    lines = body.removesuffix("\n\n").split("\n")
    assert lines[0] == "event: text"
    assert "\n".join(line.removeprefix("data: ") for line in lines[1:]) == text.replace("\r\n", "\n").replace(
        "\r", "\n"
    )


def test_records_are_frozen():
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        an_operation(echo).path = "/other"


async def test_a_large_body_is_read_apart_and_answered_all_the_same(with_operations):
    """More than is read at once, in the event loop: in another process, with the same answers."""
    client = with_operations(an_operation(echo, body={"type": "object", "properties": {"count": {"type": "integer"}}}))
    large = json.dumps({"count": 1, **{f"key{i}": [i] for i in range(2_000)}})

    assert (await post(client, large)).json()["body"]["key1999"] == [1999]
    refused = await post(client, large.replace('"count": 1', '"count": "1"'))
    assert (refused.status_code, refused.json()["problems"][0]["path"]) == (400, "count")


async def test_a_body_of_too_many_values_is_413(with_operations):
    """However short they are written."""
    answer = await post(with_operations(an_operation(echo, body={})), b"[" + b"1," * 100_000 + b"1]")

    assert answer.status_code == 413
    assert "100,000 values" in answer.json()["detail"]


async def test_an_operation_may_take_less_than_the_server(with_operations):
    """Its own limit counts, too."""
    client = with_operations(attrs.evolve(an_operation(echo, body=BODY), max_body_bytes=50))

    assert (await post(client, b" " * 51)).status_code == 413
