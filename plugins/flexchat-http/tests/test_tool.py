"""HTTP tools against a service on loopback: what is sent, what comes back, and what is known if nothing does."""

import asyncio
import base64
import json
import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from flexchat import ConfigError, FlexChat
from flexchat.host import current_traceparent

from .conftest import entry, reply


def sent(service):
    return dict(parse_qsl(urlsplit(service.got[-1].target).query))


# The specification's examples, as written; only the address differs, and text for the arguments is added.
EXAMPLES = {
    "get_weather": {
        "url": "https://api.openweathermap.org/data/2.5/weather",
        "method": "GET",
        "headers": {"Authorization": "Bearer ${WEATHER_API_KEY}"},
        "params_mapping": {"location": "q"},
    },
    "create_ticket": {
        "url": "https://api.example.com/tickets",
        "method": "POST",
        "headers": {"Authorization": "Bearer ${API_TOKEN}", "Content-Type": "application/json"},
    },
    "web_search": {
        "url": "https://api.search.com/v1/search",
        "method": "GET",
        "params_mapping": {"query": "q", "max_results": "limit"},
        "response_path": "$.results",
        "timeout_ms": 3000,
    },
}


@pytest.fixture
def example(monkeypatch, serve, opened):
    """Open a chat with one of the examples against a service that answers in a given way."""
    monkeypatch.setenv("WEATHER_API_KEY", "weather-key-1")
    monkeypatch.setenv("API_TOKEN", "ticket-key-2")

    async def start(name, parameters, answer):
        service = await serve(answer)
        written = dict(EXAMPLES[name])
        written["url"] = re.sub(r"https://[^/]+", service.url, written["url"])
        chat = opened(entry(parameters=parameters, tool={"name": name}, **written))
        return chat, service

    return start


async def test_the_specifications_weather_tool(example):
    """TC-8, TC-22, TC-50, TC-51, TC-52, TC-57: GET, a mapped parameter, a key from the environment."""
    chat, service = await example(
        "get_weather", {"location": "string", "unit": "string"}, reply(b'{"temperature": 22}')
    )

    result = await chat.call_tool("get_weather", {"location": "Paris, France", "unit": "C"})

    assert result.result == {"temperature": 22}
    assert service.got[0].method == "GET"
    assert sent(service) == {"q": "Paris, France"}
    assert service.got[0].headers["authorization"] == "Bearer weather-key-1"


async def test_the_specifications_ticket_tool(example):
    """TC-50: POST sends the parameters as they are, as a JSON body."""
    chat, service = await example("create_ticket", {"title": "string", "tags": "array"}, reply(b'{"id": 7}', 201))

    result = await chat.call_tool("create_ticket", {"title": "It's broken ☃", "tags": ["a", "b"]})

    assert result.result == {"id": 7}
    assert service.got[0].method == "POST"
    assert json.loads(service.got[0].body) == {"title": "It's broken ☃", "tags": ["a", "b"]}
    assert service.got[0].headers["content-type"] == "application/json"


async def test_the_specifications_search_tool(example):
    """TC-51, TC-53, TC-56: two mapped parameters, a part of the answer, a limit of its own."""
    found = b'{"results": [{"url": "u"}], "took": 3}'
    chat, service = await example("web_search", {"query": "string", "max_results": "integer"}, reply(found))

    result = await chat.call_tool("web_search", {"query": "a&b=c", "max_results": 3})

    assert result.result == [{"url": "u"}]
    assert sent(service) == {"q": "a&b=c", "limit": "3"}
    assert chat.tools.get_registry().get("web_search").timeout_ms == 3000


async def test_a_mock_becomes_http_by_its_implementation_only(serve, opened):
    """TC-62: what a model sees, sends and gets is the same; one line of the config differs."""
    answer = {"temperature": 22, "condition": "sunny"}
    service = await serve(reply(json.dumps(answer)))
    lines = [{"type": "mock", "mock_response": answer}, {"type": "http", "url": f"{service.url}/weather"}]
    seen = []
    for implementation in lines:
        chat = opened({**entry("", tool={"name": "get_weather"}), "implementation": implementation})
        result = await chat.call_tool("get_weather", {"q": "Paris"})
        wrong = await chat.call_tool("get_weather", {"q": 5})
        (offered,) = chat.tools.get_registry().list()
        seen.append((offered.name, offered.description, offered.parameters, result.result, wrong.error))

    assert seen[0] == seen[1]
    assert len(service.got) == 1


async def test_defaults_are_the_specifications_and_follow_the_method(opened):
    """TC-53: 10,000 ms; GET reads, all else writes, and an idempotency header means honours_key."""
    url = "https://api.example.com/"
    cases = [
        (entry(url), (10_000, "read", False)),
        (entry(url, method="POST"), (10_000, "write", False)),
        (entry(url, method="POST", idempotency_header="Idempotency-Key"), (10_000, "write", True)),
        (entry(url, method="POST", timeout_ms=50, tool={"effect": "read"}), (50, "read", False)),
        (entry(url, method="GET", tool={"effect": "write", "timeout_ms": 70}), (70, "write", False)),
    ]
    for given, expected in cases:
        tool = opened(given).tools.get_registry().get("call")
        assert (tool.timeout_ms, tool.effect, tool.honours_key) == expected


async def test_a_text_in_an_argument_is_never_taken_for_a_variable(serve, opened, monkeypatch):
    """TC-52: ${VAR} is the operator's."""
    monkeypatch.setenv("SECRET_OF_MINE", "s3cr3t-value")
    service = await serve()
    chat = opened(entry(f"{service.url}/{{q}}", {"q": "string", "h": "string"}, params_mapping={"h": "header:X-H"}))

    await chat.call_tool("call", {"q": "${SECRET_OF_MINE}", "h": "${SECRET_OF_MINE}"})

    assert "s3cr3t" not in str(service.got)
    assert service.got[0].headers["x-h"] == "${SECRET_OF_MINE}"


@pytest.mark.parametrize("secret", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\x00b", "☃"])
async def test_an_argument_cannot_add_headers(serve, opened, secret):
    """It is refused before anything is sent."""
    service = await serve()
    chat = opened(
        entry(service.url, {"q": "string", "c": "string"}, params_mapping={"q": "header:X-Q", "c": "cookie:c"})
    )

    for name in ("q", "c"):
        result = await chat.call_tool("call", {name: secret})
        assert not result.success
        assert "cannot be sent" in result.error
    assert service.got == []


async def test_the_guard_holds_for_what_arguments_choose(serve, opened):
    """A placeholder in the host: within domains, and only where the guard lets it."""
    service = await serve()
    chat = opened(entry("http://{host}.example.com/", {"host": "string"}, domains=["*.example.com"]), allow=())
    for host in ("127.0.0.1:80/", "evil.example/", "a@b", "x/../", "[::1]", "a.b", "", "a#", "a?b"):
        result = await chat.call_tool("call", {"host": host})
        assert not result.success
    assert "letters, digits and hyphens" in result.error

    chat = opened(entry(service.url), allow=())
    result = await chat.call_tool("call", {})
    assert "may not be reached" in result.error
    assert "[network]" in result.hint
    assert service.got == []


async def test_domains_of_the_operator_hold(serve, opened):
    """TC-119, TC-60."""
    service = await serve()
    chat = opened(entry(service.url), domains=["api.example.com"])

    result = await chat.call_tool("call", {})

    assert "127.0.0.1 is not among the domains" in result.error
    assert service.got == []


AUTHS = [
    ({"type": "bearer", "token": "tok-123456"}, {"authorization": "Bearer tok-123456"}, {}),
    (
        {"type": "basic", "username": "ann", "password": "pw-123456"},
        {"authorization": "Basic YW5uOnB3LTEyMzQ1Ng=="},
        {},
    ),
    ({"type": "api_key", "name": "X-Key", "api_key": "key-123456"}, {"x-key": "key-123456"}, {}),
    ({"type": "api_key", "place": "query", "name": "key", "api_key": "key-123456"}, {}, {"key": "key-123456"}),
    ({"type": "api_key", "place": "cookie", "name": "sid", "api_key": "key-123456"}, {"cookie": "sid=key-123456"}, {}),
]


@pytest.mark.parametrize(("auth", "headers", "query"), AUTHS)
async def test_keys_are_sent_and_never_shown(serve, opened, auth, headers, query):
    """TC-57; a service that echoes the key in its refusal does not give it to the model."""

    async def echo(service, request, writer):
        await reply(f'{{"message": "bad key {auth.get("token") or auth.get("api_key") or "pw-123456"}"}}', 401)(
            service, request, writer
        )

    service = await serve(echo)
    chat = opened(entry(service.url, auth=auth))

    result = await chat.call_tool("call", {})

    assert headers.items() <= service.got[0].headers.items()
    assert sent(service) == query
    assert "answered 401" in result.error
    assert "123456" not in f"{result}"


@pytest.mark.parametrize(("auth", "headers", "query"), AUTHS)
async def test_keys_that_a_service_repeats_in_an_answer_are_not_shown(serve, opened, auth, headers, query):
    """With status 200, in every form: as sent, in JSON within JSON, in URLs and in Base64."""

    async def echo(service, request, writer):
        told = {"headers": request.headers, "url": request.target, "again": json.dumps({"h": request.headers})}
        told["basic"] = base64.b64encode(json.dumps(auth).encode()).decode()
        await reply(json.dumps({**told, json.dumps(request.headers): 1}))(service, request, writer)

    service = await serve(echo)
    chat = opened(entry(service.url, auth=auth))

    result = await chat.call_tool("call", {})

    assert result.success
    assert headers.items() <= service.got[0].headers.items()
    assert result.result["headers"]["host"] in service.url
    said = f"{result} {result.to_json()}"
    assert "123456" not in said
    assert "YW5uOnB3LTEyMzQ1Ng" not in said
    assert "***" in result.result["basic"]


async def test_an_access_token_that_a_service_repeats_is_not_shown(serve, opened):
    """It is known to no configuration, only to the request it was sent with."""

    async def echo(service, request, writer):
        await reply(json.dumps(request.headers))(service, request, writer)

    issuer, service = (
        await serve(reply('{"access_token": "fetched-token-9", "token_type": "bearer"}')),
        await serve(echo),
    )
    auth = {"type": "oauth2", "token_url": issuer.url, "client_id": "me", "client_secret": "secret-1"}
    chat = opened(entry(service.url, auth=auth))

    result = await chat.call_tool("call", {})

    assert result.result["authorization"] == "Bearer ***"


async def test_access_tokens_are_fetched_once_renewed_and_replaced(serve, opened):
    """OAuth 2.0 client credentials: one request for many calls at once; again after expiry, and after a 401."""
    issued, refused = [], set()

    async def tokens(service, request, writer):
        issued.append(dict(parse_qsl(request.body.decode())))
        token = f"t{len(issued)}"
        await reply(json.dumps({"access_token": token, "token_type": "bearer", "expires_in": 3600}))(
            service, request, writer
        )

    async def api(service, request, writer):
        token = request.headers["authorization"].removeprefix("Bearer ")
        await reply(json.dumps(token), 401 if token in refused else 200)(service, request, writer)

    issuer, service = await serve(tokens), await serve(api)
    auth = {
        "type": "oauth2",
        "token_url": issuer.url,
        "client_id": "me",
        "client_secret": "s:3 cret",
        "scopes": ["a", "b"],
    }
    chat = opened(entry(service.url, method="POST", auth=auth))

    results = await asyncio.gather(*(chat.call_tool("call", {}) for _ in range(8)))
    refused.add("t1")
    after = await chat.call_tool("call", {})

    assert {result.result for result in results} == {"t1"}
    assert after.result == "t2"
    assert issued == [{"grant_type": "client_credentials", "scope": "a b"}] * 2
    assert issuer.got[0].headers["authorization"] == "Basic bWU6cyUzQTMlMjBjcmV0"


@pytest.mark.parametrize(
    "answer", [reply(b"no", 400), reply(b"[]"), reply(b'{"access_token": "a\\nb"}'), reply(b"{", 503)]
)
async def test_without_an_access_token_nothing_is_sent(serve, opened, answer):
    """The effect of a write is then known: it did not happen."""
    issuer, service = await serve(answer), await serve()
    auth = {"type": "oauth2", "token_url": issuer.url, "client_id": "me", "client_secret": "secret-1"}
    chat = opened(entry(service.url, method="POST", auth=auth))

    result = await chat.call_tool("call", {})

    assert "no access token" in result.error
    assert [effect.state for effect in await chat.effects()] == ["failed"]
    assert service.got == []


async def test_token_addresses_are_under_the_guard(serve, opened):
    """A token_url on a private address."""
    service = await serve()
    auth = {"type": "oauth2", "token_url": "http://169.254.169.254/", "client_id": "me", "client_secret": "secret-1"}
    chat = opened(entry(service.url, auth=auth))

    assert "may not be reached" in (await chat.call_tool("call", {})).error
    assert service.got == []


async def test_pages_by_link_header(serve, opened):
    """Up to max_pages, and the result says whether there is more."""

    async def pages(service, request, writer):
        page = int(dict(parse_qsl(urlsplit(request.target).query)).get("page", 1))
        links = {"link": f'</x?page={page + 1}>; rel="next", </x?page=9>; rel=last'} if page < 4 else {}
        await reply(json.dumps({"items": [page, page]}), **links)(service, request, writer)

    service = await serve(pages)
    for most, expected in ((3, ([1, 1, 2, 2, 3, 3], True)), (9, ([1, 1, 2, 2, 3, 3, 4, 4], False))):
        chat = opened(entry(service.url, paging={"type": "link", "max_pages": most}, response_path="$.items"))
        result = (await chat.call_tool("call", {})).result
        assert (result["items"], result["has_more"]) == expected


async def test_pages_by_cursor(serve, opened):
    """The cursor goes into the query beside what was asked."""

    async def pages(service, request, writer):
        cursor = dict(parse_qsl(urlsplit(request.target).query)).get("after", "")
        following = {"": "a/b", "a/b": "c"}.get(cursor)
        await reply(json.dumps({"data": [cursor], "next": following}))(service, request, writer)

    service = await serve(pages)
    paging = {"type": "cursor", "cursor_path": "$.next", "cursor_param": "after"}
    chat = opened(entry(service.url, paging=paging, response_path="$.data"))

    result = await chat.call_tool("call", {"q": "x y"})

    assert result.result == {"items": ["", "a/b", "c"], "has_more": False}
    assert sent(service) == {"q": "x y", "after": "c"}


async def test_a_next_page_elsewhere_is_not_read(serve, opened):
    """It would get the key."""
    other = await serve()
    service = await serve(reply(b"[]", link=f"<{other.url}>; rel=next"))
    chat = opened(entry(service.url, paging={"type": "link"}, headers={"X-Key": "k"}))

    assert "at another address" in (await chat.call_tool("call", {})).error
    assert other.got == []


async def test_the_output_schema_is_checked(serve, opened):
    """A read fails; a write is unknown, because the service has accepted it."""
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    service = await serve(reply(b'{"id": "7"}'))
    for method, states in (("GET", []), ("POST", ["unknown"])):
        chat = opened(entry(service.url, method=method, output_schema=schema))
        result = await chat.call_tool("call", {})
        assert "does not fit the tool's output_schema: id must be an integer" in result.error
        assert [effect.state for effect in await chat.effects()] == states


async def test_keys_and_traces_are_sent(serve, opened):
    """The call's key under the service's header; the caller's trace."""
    service = await serve()
    chat = opened(entry(service.url, method="POST", idempotency_header="Idempotency-Key", traceparent=True))

    token = current_traceparent.set("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    await chat.call_tool("call", {}, idempotency_key="order 7")
    await chat.call_tool("call", {}, idempotency_key="order 7")
    current_traceparent.reset(token)

    (request,) = service.got
    assert re.fullmatch(r"[0-9a-f]{64}", request.headers["idempotency-key"])
    assert request.headers["traceparent"] == "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_a_call_without_a_trace_begins_one(serve, opened):
    service = await serve()
    chat = opened(entry(service.url, traceparent=True))

    for _ in range(2):
        await chat.call_tool("call", {})

    sent = [request.headers["traceparent"] for request in service.got]
    assert all(re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", each) for each in sent)
    assert sent[0] != sent[1]


WRONG = [
    ({"url": "ftp://x/"}, "must start with http"),
    ({"url": "http://u:p@x/"}, "use auth"),
    ({"url": "http://{q}/"}, "domains must say"),
    ({"url": "http://x:{q}/", "domains": ["x"]}, "url cannot be read"),
    ({"url": "http://x/{y}"}, "placeholder {y}, which is not a parameter (parameters: q)"),
    ({"url": "http://x/{q"}, "brace"),
    ({"headers": {"a b": "c"}}, "not the name of a header"),
    ({"headers": {"a": "b\nc"}}, "line break"),
    ({"idempotency_header": "a:b"}, "not the name of a header"),
    *(
        (entry, "belongs to the connection")
        for name in ("Host", "content-length", "Transfer-Encoding", "Expect", "Connection", "TE", "Upgrade", "Trailer")
        for entry in (
            {"headers": {name: "x"}},
            {"params_mapping": {"q": f"header:{name}"}},
            {"idempotency_header": name},
            {"auth": {"type": "api_key", "name": name, "api_key": "key-123456"}},
        )
    ),
    ({"params_mapping": {"q": "header:Proxy-Authorization"}}, "belongs to the connection"),
    ({"headers": {"X-A": "1", "x-a": "2"}}, "headers.X-A and headers.x-a are sent as one header, 'x-a'"),
    ({"headers": {"X-Q": "1"}, "params_mapping": {"q": "header:x-q"}}, "headers.X-Q and params_mapping.q are sent as"),
    ({"idempotency_header": "X-Q", "params_mapping": {"q": "header:X-Q"}}, "idempotency_header and params_mapping.q"),
    ({"traceparent": True, "headers": {"Traceparent": "0"}}, "headers.Traceparent and traceparent"),
    ({"auth": {"type": "bearer", "token": "t"}, "headers": {"authorization": "x"}}, "headers.authorization and auth"),
    ({"auth": {"type": "bearer", "token": "t"}, "params_mapping": {"q": "header:Authorization"}}, "auth and params"),
    (
        {
            "auth": {"type": "api_key", "place": "query", "name": "k", "api_key": "x"},
            "params_mapping": {"q": "query:k"},
        },
        "auth and params_mapping.q are sent as one query value, 'k'",
    ),
    ({"url": "http://x.example/?a=1", "params_mapping": {"q": "query:a"}}, "the query of url and params_mapping.q"),
    ({"url": "http://x.example/?q=1"}, "the query of url and the parameter 'q' are sent as one query value"),
    ({"headers": {"Cookie": "a=1"}, "params_mapping": {"q": "cookie:b"}}, "headers.Cookie and params_mapping"),
    (
        {"paging": {"type": "cursor", "cursor_path": "$.n", "cursor_param": "q"}},
        "paging.cursor_param and the",
    ),
    ({"headers": {"Authorization": "Bearer "}}, "the header Authorization has no credential ('Bearer')"),
    ({"headers": {"X-Api-Key": ""}}, "the header X-Api-Key has no credential"),
    ({"auth": {"type": "bearer", "token": " "}}, "needs token"),
    ({"auth": {"type": "bearer", "token": "Bearer abc"}}, "must not begin with 'Bearer'"),
    ({"params_mapping": {"p": "x"}}, "params_mapping names 'p'"),
    ({"params_mapping": {"q": "head:x"}}, "'head' is not a place"),
    ({"params_mapping": {"q": "path:x"}}, "no placeholder {x}"),
    ({"response_path": "a.b"}, "response_path: "),
    ({"auth": {"type": "oauth2", "client_id": "x"}}, "needs token_url and client_secret"),
    ({"paging": {"type": "cursor"}}, "cursor_path and cursor_param"),
    ({"paging": {"type": "link"}, "method": "POST"}, "tools that read"),
    ({"output_schema": {"type": "objekt"}}, "output_schema: "),
    ({"methd": "GET"}, "did you mean 'method'"),
]


@pytest.mark.parametrize(("wrong", "text"), WRONG)
async def test_what_is_wrong_is_said_at_load(opened, wrong, text):
    """With the place of the entry."""
    with pytest.raises(ConfigError) as caught:
        opened(entry(**{"url": "http://x.example/", **wrong}))

    assert text in str(caught.value)
    assert "tools.registry[0]" in str(caught.value)


TWO_INTO_ONE = [
    ("query:x", "query:x", "query value"),
    ("header:X-A", "header:x-a", "header"),
    ("cookie:c", "cookie:c", "cookie value"),
    ("body:user", "body:user", "body value"),
    ("body:user", "body:user.name", "body value"),
    ("x", "query:x", "query value"),
    ("path:id", "path:id", "part of the path"),
]


@pytest.mark.parametrize(("one", "other", "place"), TWO_INTO_ONE)
async def test_two_arguments_to_one_name_are_refused(opened, one, other, place):
    """One of them would be lost, in silence."""
    wrong = entry(
        "http://x.example/{id}",
        params_mapping={"a": one, "b": other},
        parameters={"a": "string", "b": "string", "id": "string"},
    )

    with pytest.raises(ConfigError, match=f"params_mapping.a and params_mapping.b are sent as one {place}"):
        opened(wrong)


@pytest.mark.parametrize(
    "entries",
    [
        {"params_mapping": {"a": "query:x", "b": "header:x"}},
        {"params_mapping": {"a": "body:user.name", "b": "body:user.age"}, "method": "POST"},
        {"params_mapping": {"a": "body:user", "b": "body:user_name"}, "method": "POST"},
        {"params_mapping": {"a": "path:id", "b": "query:b"}, "url": "http://x.example/{id}"},
        {"headers": {"X-Token-Count": "3"}, "params_mapping": {"a": "header:X-A"}},
    ],
)
async def test_names_that_differ_are_accepted(opened, entries):
    opened(entry(**{"url": "http://x.example/", **entries}, parameters={"a": "string", "b": "string"}))


async def test_an_empty_variable_sends_no_bare_scheme(opened, monkeypatch):
    monkeypatch.setenv("EMPTY_TOKEN", "")
    for entries in (
        {"headers": {"Authorization": "Bearer ${EMPTY_TOKEN}"}},
        {"auth": {"type": "bearer", "token": "${EMPTY_TOKEN}"}},
        {"auth": {"type": "bearer", "token": "${EMPTY_TOKEN:-}"}},
    ):
        with pytest.raises(ConfigError):
            opened(entry("http://x.example/", **entries))


@pytest.mark.parametrize("kind", ["mac", "DPoP", "N_A", 7])
async def test_tokens_of_another_type_are_not_sent_as_bearer(serve, opened, kind):
    issuer = await serve(reply(json.dumps({"access_token": "t", "token_type": kind})))
    service = await serve()
    auth = {"type": "oauth2", "token_url": issuer.url, "client_id": "me", "client_secret": "secret-1"}

    result = await opened(entry(service.url, auth=auth)).call_tool("call", {})

    assert f"issues tokens of type {kind}, and only Bearer is sent" in result.error
    assert service.got == []


@pytest.mark.parametrize(
    ("following", "items"),
    [({"": "a", "a": "a"}, ["", "a"]), ({"": "a", "a": "b", "b": "a"}, ["", "a", "b"]), ({"": 1, "1": 1}, ["", "1"])],
)
async def test_a_cursor_that_repeats_ends_the_pages(serve, opened, following, items):
    async def pages(service, request, writer):
        cursor = dict(parse_qsl(urlsplit(request.target).query)).get("after", "")
        await reply(json.dumps({"data": [cursor], "next": following[cursor]}))(service, request, writer)

    service = await serve(pages)
    paging = {"type": "cursor", "cursor_path": "$.next", "cursor_param": "after", "max_pages": 20}
    chat = opened(entry(service.url, paging=paging, response_path="$.data"))

    result = (await chat.call_tool("call", {})).result

    assert result["items"] == items
    assert "a page again that has been read" in result["stopped"]
    assert len(service.got) == len(items)


async def test_a_link_to_the_same_page_ends_the_pages(serve, opened):
    service = await serve(reply(b"[1]", link="</>; rel=next"))
    result = (await opened(entry(f"{service.url}/", paging={"type": "link"})).call_tool("call", {})).result

    assert result["items"] == [1]
    assert result["has_more"] is True
    assert len(service.got) == 1


async def test_an_unset_variable_is_an_error_at_load(opened):
    """TC-52's departure: nobody sends a placeholder as a key."""
    with pytest.raises(ConfigError, match="NOT_SET_ANYWHERE"):
        opened(entry("http://x.example/", headers={"Authorization": "Bearer ${NOT_SET_ANYWHERE}"}))


def test_wrong_network_entries_are_named():
    """With their place."""
    with pytest.raises(ConfigError) as caught:
        FlexChat.from_config(
            {"llms": {"r": {"provider": "rehearsal"}}, "network": {"allow": ["10.0.0.0/8", "x/y"], "domains": ["a b"]}}
        )

    assert "network.allow[1]" in str(caught.value)
    assert "network.domains[0]" in str(caught.value)
