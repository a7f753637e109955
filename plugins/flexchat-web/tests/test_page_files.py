"""What a browser loads: once, packed, and under addresses that change with the files."""

import gzip
import re

import pytest
from flexchat_web.guard import accepts_gzip
from flexchat_web.page_files import STATIC, PageFiles

IMMUTABLE = "public, max-age=31536000, immutable"


async def links_of(client):
    return re.findall(r'(?:href|src)="(static/[^"]+)"', (await client.get("/")).text)


async def test_everything_the_index_names_may_be_kept_for_good(client):
    links = await links_of(client)

    assert len(links) > 20
    for link in links:
        answer = await client.get(f"/{link}")
        assert answer.status_code == 200, link
        assert answer.headers["cache-control"] == IMMUTABLE
    assert sum(link.endswith(".css") for link in links) == 1


async def test_the_index_is_asked_for_again_and_found_unchanged(client):
    first = await client.get("/")
    again = await client.get("/", headers={"if-none-match": first.headers["etag"]})
    weak = await client.get("/", headers={"if-none-match": f'"x", W/{first.headers["etag"]}'})
    other = await client.get("/", headers={"if-none-match": '"x"'})

    assert first.headers["cache-control"] == "no-cache"
    assert [each.status_code for each in (again, weak, other)] == [304, 304, 200]
    assert again.content == b""


async def test_modules_are_loaded_along_with_those_that_import_them(client):
    """All that main.js and the chat need are named by the index: one round trip, not one for each level."""
    links = {re.sub(r"static/v-[0-9a-f]+/", "", link) for link in await links_of(client)}
    for name in [link for link in links if link.endswith(".js")]:
        for imported in re.findall(r'^import .* from "(\.[^"]+)";', (STATIC / name).read_text(), re.MULTILINE):
            path = ((STATIC / name).parent / imported).resolve().relative_to(STATIC).as_posix()
            assert path in links | {"plugins.js"}


async def test_files_at_another_version_are_the_current_ones_and_not_kept(client):
    """A page that was opened before an update asks for the rest of its modules."""
    for path in ("/static/v-0123456789abcdef/js/main.js", "/static/js/main.js", "/static/plugins.js"):
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")
    assert (await client.get("/static/v-0123456789abcdef/../app.py")).status_code == 404
    assert (await client.get("/static/v-0123456789abcdef")).status_code == 404


def test_the_version_changes_with_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("flexchat_web.page_files.STATIC", tmp_path)
    (tmp_path / "js" / "pages").mkdir(parents=True)
    (tmp_path / "index.html").write_text('<link rel="stylesheet" href="static/css/a.css" />')
    (tmp_path / "css").mkdir()
    (tmp_path / "css" / "a.css").write_text("a {}")
    files = PageFiles([])
    before = files.version

    files.refresh()
    assert files.version == before
    (tmp_path / "css" / "a.css").write_text("a { color: red }")
    files.refresh()

    assert files.version != before
    assert files.styles == "a { color: red }"
    assert f"static/v-{files.version}/css/all.css" in files.index


async def test_the_styles_are_those_of_the_index_in_its_order(client):
    styles = re.findall(r'href="static/(css/[^"]+)"', (STATIC / "index.html").read_text())
    found = (await client.get("/static/css/all.css")).text
    places = [found.index((STATIC / name).read_text()) for name in styles]
    assert places == sorted(places)
    assert len(places) > 5


@pytest.mark.parametrize(
    "path", ["/", "/static/js/main.js", "/static/css/all.css", "/openapi.json", "/api/config/schema"]
)
async def test_texts_are_packed_for_those_who_accept_it(client, path):
    plain = await client.get(path, headers={"accept-encoding": "identity"})
    async with client.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer:
        packed = b"".join([piece async for piece in answer.aiter_raw()])

    assert "content-encoding" not in plain.headers
    assert answer.headers["content-encoding"] == "gzip"
    assert "Accept-Encoding" in plain.headers["vary"]
    assert "Accept-Encoding" in answer.headers["vary"]
    assert int(answer.headers["content-length"]) == len(packed) < len(plain.content)
    assert gzip.decompress(packed) == plain.content


async def test_what_is_short_or_a_stream_is_not_packed(client, told, sse):
    assert "content-encoding" not in (await client.get("/health")).headers
    told.says("hello " * 1_000)
    streaming = await told.client()
    answer = await streaming.post("/chat/api", json={"prompt": "hi", "stream": True})
    assert "content-encoding" not in answer.headers
    assert sse(answer.text)[-1][0] == "turn"


async def test_a_head_request_has_the_length_of_the_plain_file(client):
    plain = await client.get("/static/js/main.js", headers={"accept-encoding": "identity"})
    head = await client.head("/static/js/main.js")
    assert head.headers["content-length"] == plain.headers["content-length"]
    assert head.content == b""


async def test_problems_are_packed_and_conversations_are_not_kept(client):
    answer = await client.post("/api/explain", json={"prompt": "a", **{f"x{i}": 1 for i in range(40)}})
    assert answer.status_code == 400
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("header", "accepts"),
    [
        ("gzip, deflate, br", True), ("GZIP", True), ("gzip;q=0.5", True), ("*", True), ("br, *;q=0.1", True),
        ("", False), ("br", False), ("gzip;q=0", False), ("gzip; q=0.0", False), ("*, gzip;q=0", False),
        ("identity", False), ("xgzip", False),
    ],
)  # fmt: skip
def test_what_accepts_gzip(header, accepts):
    """Source: RFC 9110, 12.5.3."""
    assert accepts_gzip({"accept-encoding": header}) is accepts
