"""Images that tools return, on the page: pixels are shown, everything else is told in words."""

import httpx
import pytest
from playwright.sync_api import expect
from web_browser import NARROW, WIDE, accessible, fits
from web_server import WebServer

pytestmark = pytest.mark.slow

CAMERA = """
import struct
import zlib

from flexchat import MediaPart, WithMedia


def png(width, height):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\\0" + bytes(v for x in range(width) for v in (x % 256, y % 256, 90)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


async def photograph():
    drawing = b"<svg xmlns='http://www.w3.org/2000/svg' onload='document.title=1'/>"
    return WithMedia(
        {"seen": "a gradient"},
        [
            MediaPart(kind="image", mime_type="image/png", data=png(900, 300), name="gradient.png"),
            MediaPart(kind="image", mime_type="image/svg+xml", data=drawing, name="bad.svg"),
            MediaPart(kind="document", mime_type="text/html", data=b"<script>document.title=1</script>"),
            MediaPart(kind="image", mime_type="image/png", data=drawing, name='"><script>document.title=1</script>'),
        ],
    )
"""
CONFIG = """
[llms.main]
provider = "scripted"
default_model = "m"
repeat = true
replies = [
  { tool_calls = [{ name = "photograph", arguments = "{}" }] },
  { text = "A gradient." },
]

[[responses]]
llm = "main"
tools = { enabled = true }

[[tools.registry]]
name = "photograph"
description = "Take a picture."
effect = "read"
parameters = { type = "object", properties = {} }
implementation = { type = "python", function = "camera:photograph" }

[conversations]
provider = "sqlite"
"""


@pytest.fixture
def server(tmp_path):
    (tmp_path / "camera.py").write_text(CAMERA)
    server = WebServer(tmp_path, CONFIG)
    yield server
    server.close()


def shown(call):
    """Check what a call's card shows."""
    call.locator("summary").click()
    picture = call.get_by_role("img", name="gradient.png")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 900
    expect(call.get_by_role("img")).to_have_count(1)
    media = call.get_by_role("list", name="Media")
    expect(media).to_contain_text("bad.svg, image/svg+xml")
    expect(media).to_contain_text("text/html, 33 bytes")
    expect(media).to_contain_text("its data are not image/png")
    expect(call).to_contain_text('"a gradient"')


@pytest.mark.parametrize(("size", "theme"), [(WIDE, "light"), (NARROW, "dark")])
def test_an_image_is_shown_when_it_comes_and_when_the_page_is_opened_again(visit, server, size, theme):
    page = visit(server.url, size=size, theme=theme)
    title = page.title()
    page.get_by_label("Message", exact=True).fill("Take a picture")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("A gradient.")

    shown(page.locator(".tool-call"))
    accessible(page)
    fits(page)
    assert title.split(" · ")[-1] in page.title()

    page.reload()
    expect(page.locator(".answer")).to_contain_text("A gradient.")
    shown(page.locator(".tool-call"))
    fits(page)
    (turn,) = httpx.get(f"{server.url}api/turns").json()["turns"]
    page = visit(f"{server.url}#/activity/turns/{turn['id']}", size=size, theme=theme)
    shown(page.locator(".tool-call"))


def test_a_tool_tried_by_hand_shows_its_image(visit, server):
    page = visit(server.url + "#/tools")
    page.get_by_role("button", name="Try it: photograph").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Run").click()
    expect(dialog.get_by_role("img", name="gradient.png")).to_be_visible()
    accessible(page)
