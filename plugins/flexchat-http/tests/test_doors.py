"""Every door through which a user, a model or a document can name an address: none leads to a forbidden one.

One list of URLs for all doors, each as written and, where it is an IP address, by a name that leads there. Each door is
also tried with a permitted address, so that it is known to be open.
"""

import asyncio
import json
import re
import socket
from urllib.parse import urlsplit

import pytest
from flexchat import FlexChat
from flexchat.plugin import ToolSourceContext, ToolSourceError
from flexchat_http.openapi.source import open_source
from flexchat_http.settings import OpenApiConfig
from flexchat_sdk.http.fetcher import GuardedFetcher
from flexchat_sdk.http.guard import AddressRule, checked_url, domain_problem
from forbidden_urls import REFUSED_URLS
from openapi_documents import document, written

from .conftest import entry, reply

TRICKS = [
    "http://user@127.0.0.1:9/",
    "http://8.8.8.8@127.0.0.1:9/",
    "http://127.0.0.1:9\\@8.8.8.8/",
    "http://8.8.8.8\\@127.0.0.1:9/",
    "http://[::ffff:127.0.0.1%25lo]:9/",
    "http://127.0.0.1%00.example:9/",
    "http://127.0.0.1:9#@8.8.8.8/",
]
"""Refused too, whatever a reader takes for the host."""
ADDRESSES = {url: checked_url(url).address for url in REFUSED_URLS}
NAMES = {f"n{at}.evil.example": str(found) for at, found in enumerate(dict.fromkeys(ADDRESSES.values())) if found}
URLS = [*REFUSED_URLS, *TRICKS, *(f"http://{name}/" for name in NAMES)]


class World:
    """What was about to be resolved and connected to. Names lead where NAMES says; nothing leaves loopback."""

    def __init__(self, monkeypatch):
        self.reached, self.asked = set(), set()
        real_connect = asyncio.selector_events.BaseSelectorEventLoop.sock_connect
        real_info = asyncio.base_events.BaseEventLoop.getaddrinfo

        async def sock_connect(loop, sock, address):
            self.reached.add(address[:2])
            if address[0] != "127.0.0.1":
                raise ConnectionRefusedError(111, "not in tests")
            return await real_connect(loop, sock, address)

        async def getaddrinfo(loop, host, port, **rest):
            if host == "127.0.0.1":
                return await real_info(loop, host, port, **rest)
            self.asked.add(host)
            if host not in NAMES:
                raise socket.gaierror(socket.EAI_NONAME, "not in tests")
            family = socket.AF_INET6 if ":" in NAMES[host] else socket.AF_INET
            return [(family, socket.SOCK_STREAM, 6, "", (NAMES[host], port, 0, 0)[: 4 if ":" in NAMES[host] else 2])]

        monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "sock_connect", sock_connect)
        monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", getaddrinfo)


@pytest.fixture
def world(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return World(monkeypatch)


class House:
    """Opens chats and sources that may reach our service, and nothing else that is not public."""

    def __init__(self, folder, service):
        self.folder, self.service = folder, service
        self.urls, self.arguments = [], {}
        self.fetcher = GuardedFetcher(AddressRule((service.address,)))

    async def calls(self, entries=(), **tools):
        """Call every tool of a config; return the results."""
        config = {
            "llms": {"r": {"provider": "rehearsal"}},
            "responses": [
                {"llm": "r", "model": "any"} | ({"tools": {"allowed_tools": ["openapi/*"]}} if tools else {})
            ],
            "tools": {"registry": list(entries), **tools},
            "network": {"allow": [self.service.address]},
        }
        path = self.folder / "chat.json"
        path.write_text(json.dumps(config))
        async with FlexChat.from_config(path) as chat:
            if tools:
                await chat.tools.sources.look("openapi")
            names = [each["name"] for each in entries] or [
                tool.name for tool in chat.tools.sources.state("openapi").tools
            ]
            return [await chat.call_tool(name, self.arguments.get(name, {})) for name in names]

    async def operations(self, data, **source):
        """Call every operation of a document."""
        written(self.folder, data)
        return await self.calls(openapi=[{"document": "openapi.json", **source}])

    async def source(self, address, **rest):
        """Open a document; return the library it is in, or the error."""
        context = ToolSourceContext(name="x", folder=self.folder, fetcher=self.fetcher)
        try:
            return (await open_source(OpenApiConfig(document=address, **rest), context))._library
        except ToolSourceError as error:
            return error


@pytest.fixture
async def house(tmp_path, serve):
    async def answer(service, request, writer):
        kind, _, number = request.target.strip("/").partition("/")
        target = made.urls[int(number)] if number.isdecimal() else ""
        await {
            "redirect": reply(b"", 302, location=target),
            "page": reply(b"[]", link=f"<{target}>; rel=next"),
            "token": reply(b'{"access_token": "t"}'),
        }.get(kind, reply(json.dumps(document({"/x": {"get": {}}}))))(service, request, writer)

    made = House(tmp_path, await serve(answer))
    yield made
    await made.fetcher.aclose()


def paths(urls, operation):
    return {f"/o{at}": {"get": {"operationId": f"o{at}", **operation(at, url)}} for at, url in enumerate(urls)}


async def by_url(house, urls):
    """In the operator's file."""
    return await house.calls(
        [entry(url, tool={"name": f"u{at}"}) for at, url in enumerate(urls) if not re.search(r"[@\\#%]", url)]
    )


async def by_placeholder(house, urls):
    """Each part of the host is an argument; the operator permits every domain there is."""
    hosts = [urlsplit(url).netloc for url in urls]
    hosts = [re.sub(r":[0-9]*$", "", host) if host[0] != "[" else host for host in hosts]
    port = urlsplit(urls[0]).port if len(urls) == 1 else None
    domains = {checked_url(f"http://{host}/").host for host in hosts if not re.search(r"[@\\%]", host)}
    domains = [domain for domain in domains if domain_problem(domain) is None]
    entries = []
    for at, host in enumerate(hosts):
        arguments = {f"p{number}": part for number, part in enumerate(host.split("."))}
        template = "http://" + ".".join(f"{{{name}}}" for name in arguments) + (f":{port}/" if port else "/")
        house.arguments[f"u{at}"] = arguments
        entries.append(entry(template, dict.fromkeys(arguments, "string"), domains=domains, tool={"name": f"u{at}"}))
    return await house.calls(entries)


async def by_redirect(house, urls):
    """Of a tool's service."""
    return await house.calls(
        [entry(f"{house.service.url}/redirect/{at}", tool={"name": f"u{at}"}) for at in range(len(urls))]
    )


async def by_next_page(house, urls):
    """Of a tool's list."""
    return await house.calls(
        [
            entry(f"{house.service.url}/page/{at}", paging={"type": "link"}, tool={"name": f"u{at}"})
            for at in range(len(urls))
        ]
    )


async def by_token_url(house, urls):
    """Of a tool's OAuth."""
    auth = {"type": "oauth2", "client_id": "me", "client_secret": "secret-1"}
    return await house.calls(
        [
            entry(f"{house.service.url}/never", auth={**auth, "token_url": url}, tool={"name": f"u{at}"})
            for at, url in enumerate(urls)
        ]
    )


async def by_server(house, urls):
    """Of a document's operation."""
    return await house.operations(document(paths(urls, lambda at, url: {"servers": [{"url": url}]})))


async def by_server_variable(house, urls):
    """Its default is the host."""

    def operation(at, url):
        host = {"default": url.removeprefix("http://").rstrip("/")}
        return {"servers": [{"url": "http://{host}/", "variables": {"host": host}}]}

    return await house.operations(document(paths(urls, operation)))


async def by_token_url_of_a_document(house, urls):
    schemes = {
        f"s{at}": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": url}}} for at, url in enumerate(urls)
    }
    servers = [{"url": f"{house.service.url}/never"}]
    data = document(
        paths(urls, lambda at, url: {"security": [{f"s{at}": []}], "servers": servers}),
        components={"securitySchemes": schemes},
    )
    return await house.operations(data, auth=dict.fromkeys(schemes, "me:secret-1"))


async def by_redirect_of_an_operation(house, urls):
    servers = [{"url": f"{house.service.url}/redirect"}]
    data = document({f"/{at}": {"get": {"operationId": f"o{at}"}} for at in range(len(urls))}) | {"servers": servers}
    return await house.operations(data)


async def by_document(house, urls):
    """The address of a document itself."""
    return [await house.source(url) for url in urls]


async def by_redirect_of_a_document(house, urls):
    return [await house.source(f"{house.service.url}/redirect/{at}") for at in range(len(urls))]


async def by_reference(house, urls):
    """``$ref`` in a document, where the operator permits references to other places."""
    return [await _referring(house, url) for url in urls]


async def by_redirect_of_a_reference(house, urls):
    return [await _referring(house, f"{house.service.url}/redirect/{at}") for at in range(len(urls))]


async def _referring(house, url):
    data = document({"/x": {"get": {"parameters": [{"$ref": f"{url}#/p"}]}}})
    found = await house.source(str(written(house.folder, data)), remote_refs=True)
    assert len(found.files) + len(found.missing) <= 2  # one that is not a URL is a part of the document itself
    return found


DOORS = [
    by_url,
    by_placeholder,
    by_redirect,
    by_next_page,
    by_token_url,
    by_server,
    by_server_variable,
    by_token_url_of_a_document,
    by_redirect_of_an_operation,
    by_document,
    by_redirect_of_a_document,
    by_reference,
    by_redirect_of_a_reference,
]


REFUSAL = re.compile(
    r"may not be reached|where no request may go|the URL's host|the URL (contains|must not)|"
    "the next page is at another|must consist of letters|is part of the address"
)
"""As opposed to an answer, a name that does not exist, or a service that is left alone because it failed before."""


def reason(outcome):
    return str(getattr(outcome, "error", None) or getattr(outcome, "missing", None) or outcome)


def succeeded(outcome):
    """Whether a call, a source or a reference got an answer."""
    if hasattr(outcome, "success"):
        return outcome.success
    return not isinstance(outcome, ToolSourceError) and not outcome.missing and len(outcome.files) > 0


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
async def test_no_door_leads_to_a_forbidden_address(house, world, door):
    """No connection, no question to a resolver about names that mean this machine; and no answer."""
    house.urls = URLS

    outcomes = await door(house, URLS)

    assert world.reached <= {("127.0.0.1", int(house.service.address.partition(":")[2]))}
    assert world.asked <= set(NAMES)
    assert not any("/never" in got.target for got in house.service.got)
    assert not any(succeeded(outcome) for outcome in outcomes)
    assert len(outcomes) > 60
    assert [each for each in map(reason, outcomes) if not REFUSAL.search(each)] == []


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
async def test_each_door_leads_to_a_permitted_address(house, world, door):
    """Or the other test would prove nothing."""
    house.urls = [f"{house.service.url}/token"]

    outcomes = await door(house, house.urls)

    assert [succeeded(outcome) for outcome in outcomes] == [True]
    assert len(house.service.got) >= (2 if "redirect" in door.__name__ or "page" in door.__name__ else 1)


async def test_an_argument_of_a_path_or_a_query_chooses_no_host(house, world):
    """Whatever it says, the service that the operator named is asked, at the path it named."""
    values = [
        form.format(url) for url in URLS[::5] for form in ("{}", "@{}", "//{}", "\\{}", "?{}", "#{}", "/../../{}")
    ]
    entries = [
        entry(f"{house.service.url}/in/{{x}}/end?q={{x}}", {"x": "string"}, tool={"name": f"u{at}"})
        for at, value in enumerate(values)
    ]
    house.arguments = {f"u{at}": {"x": value} for at, value in enumerate(values)}

    outcomes = await house.calls(entries)

    assert all(outcome.success for outcome in outcomes)
    assert {host for host, _ in world.reached} == {"127.0.0.1"}
    assert all(re.fullmatch(r"/in/[^/?]+/end\?q=[^&#]+", got.target) for got in house.service.got)
    assert len(house.service.got) == len(values)


async def test_behind_a_proxy_the_urls_address_is_still_checked(house, world, monkeypatch):
    """Only names are the proxy's to decide about; none of those that mean this machine or its cloud gets there."""
    monkeypatch.setenv("http_proxy", house.service.url)

    outcomes = await by_url(house, REFUSED_URLS)

    assert [each for each in map(reason, outcomes) if not REFUSAL.search(each)] == []
    assert (world.reached, house.service.got) == (set(), [])
