"""Files of a message on the page: picked, pasted and dropped, removed, sent and shown."""

import struct
import zlib

import httpx
import pytest
from playwright.sync_api import expect
from web_browser import NARROW, WIDE, accessible, fits
from web_server import WebServer

pytestmark = pytest.mark.slow

CONFIG = """
[llms.main]
provider = "scripted"
default_model = "m"
repeat = true
replies = [%s{ text = "A gradient." }]

[[responses]]
llm = "main"
tools = { enabled = true }

[[tools.registry]]
name = "wait"
description = "Wait for a file."
effect = "read"
parameters = { type = "object", properties = {} }
implementation = { type = "python", function = "waiting:wait" }

[conversations]
provider = "sqlite"

[media]
max_bytes = 200_000
"""
WAITING = """
import asyncio
from pathlib import Path


async def wait():
    while not Path("go").exists():
        await asyncio.sleep(0.02)
"""
WAV = b"RIFF" + struct.pack("<I", 8036) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8)
WAV += b"data" + struct.pack("<I", 8000) + bytes([128]) * 8000


def png(width, height):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + bytes(v for x in range(width) for v in (x % 256, y % 256, 90)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


PHOTO = {"name": "photo.png", "mimeType": "image/png", "buffer": png(600, 300)}
SOUND = {"name": "bell.wav", "mimeType": "audio/wav", "buffer": WAV}
NOTES = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"<script>document.title=1</script>"}
LARGE = {"name": "large.txt", "mimeType": "text/plain", "buffer": b"a" * 300_000}


@pytest.fixture
def serving(tmp_path):
    """Start a server; one that waits calls a tool first, which ends once its folder has a file "go"."""
    made = []
    (tmp_path / "waiting.py").write_text(WAITING)

    def serve(*, waits=False, keeps=True):
        first = '{ tool_calls = [{ name = "wait", arguments = "{}" }] }, ' if waits else ""
        config = CONFIG if keeps else CONFIG.replace('[conversations]\nprovider = "sqlite"', "")
        made.append(WebServer(tmp_path, config % first))
        return made[-1]

    yield serve
    for server in made:
        server.close()


def pick(page, *files):
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Attach files").click()
    chooser.value.set_files([*files])


def attached(page):
    return page.get_by_role("list", name="Attachments").first.get_by_role("listitem")


def transfer(page, event, target, name, mime_type, data):
    """Dispatch an event that brings a file, as the browser does; return whether the page takes it."""
    return page.locator(target).evaluate(
        """(node, [event, name, type, bytes]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], name, { type }));
            const about = { bubbles: true, cancelable: true };
            const happened = event === "paste"
                ? new ClipboardEvent(event, { ...about, clipboardData: transfer })
                : new DragEvent(event, { ...about, dataTransfer: transfer });
            node.dispatchEvent(happened);
            return happened.defaultPrevented;
        }""",
        [event, name, mime_type, list(data)],
    )


def shown(page):
    """Check what a message with all three shows."""
    asked = page.locator(".asked").last
    picture = asked.get_by_role("img", name="photo.png")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 600
    sound = asked.locator("audio[aria-label='bell.wav']")
    expect(sound).to_be_visible()
    with page.expect_download() as download:
        asked.get_by_role("link", name="notes.txt").click()
    assert download.value.suggested_filename == "notes.txt"
    assert download.value.path().read_bytes() == NOTES["buffer"]


@pytest.mark.parametrize(("size", "theme"), [(WIDE, "light"), (NARROW, "light"), (NARROW, "dark")])
def test_files_are_picked_sent_and_shown_when_the_page_is_opened_again(visit, serving, size, theme):
    server = serving()
    page = visit(server.url, size=size, theme=theme)
    pick(page, PHOTO, SOUND, NOTES)
    expect(attached(page)).to_have_count(3)
    expect(page.locator(".attachment[data-state=sent]")).to_have_count(3)
    expect(page.locator(".attachment-picture img")).to_have_count(1)
    accessible(page)
    fits(page)
    assert page.evaluate(
        "document.documentElement.scrollHeight <= innerHeight"
    )  # the conversation scrolls, not the page
    page.get_by_label("Message", exact=True).fill("What is this?")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("A gradient.")
    expect(page.locator(".attachment")).to_have_count(0)
    shown(page)
    accessible(page)
    fits(page)

    page.reload()
    expect(page.locator(".answer")).to_contain_text("A gradient.")
    shown(page)
    fits(page)
    (listed,) = httpx.get(f"{server.url}api/conversations").json()["conversations"]
    answer = httpx.get(f"{server.url}api/conversations/{listed['id']}")
    media = answer.json()["turns"][0]["messages"][0]["media"]
    assert [(part["name"], part["bytes"]) for part in media] == [
        (file["name"], len(file["buffer"])) for file in (PHOTO, SOUND, NOTES)
    ]
    assert "data" not in media[0]
    assert httpx.get(f"{server.url}api/media/{media[0]['sha256']}").content == PHOTO["buffer"]


def test_files_are_pasted_and_dropped(visit, serving):
    page = visit(serving().url)
    transfer(page, "paste", "#message", "pasted.png", "image/png", png(8, 8))
    transfer(page, "dragover", ".conversation", "x", "text/plain", b"x")
    expect(page.locator(".conversation.dropping")).to_have_count(1)
    transfer(page, "drop", ".messages", "dropped.txt", "text/plain", b"a text")
    expect(page.locator(".conversation.dropping")).to_have_count(0)
    expect(page.locator(".attachment[data-state=sent]")).to_have_count(2)
    expect(attached(page).nth(0)).to_contain_text("pasted.png")
    expect(attached(page).nth(1)).to_contain_text("dropped.txt")
    page.get_by_role("button", name="Send").click()  # without a text
    expect(page.locator(".asked").get_by_role("img", name="pasted.png")).to_be_visible()
    expect(page.locator(".answer")).to_contain_text("A gradient.")
    expect(page.get_by_role("heading", level=1)).to_contain_text("pasted.png")


def test_without_a_store_a_dropped_file_is_refused_in_a_sentence(visit, serving):
    """The browser would open it in place of the page."""
    page = visit(serving(keeps=False).url)
    expect(page.get_by_role("button", name="Attach files")).to_have_count(0)
    for event, target in (("paste", "#message"), ("drop", ".messages")):
        assert transfer(page, event, target, f"{event}.png", "image/png", png(8, 8))
    for at in range(2):
        expect(attached(page).nth(at)).to_contain_text("media are not kept; add a [conversations] table")
    page.get_by_role("button", name="Remove paste.png").click()
    expect(attached(page)).to_have_count(1)


def test_a_pasted_text_stays_a_text(visit, serving):
    page = visit(serving().url)
    field = page.get_by_label("Message", exact=True)
    field.evaluate(
        """node => {
            const transfer = new DataTransfer();
            transfer.setData("text/plain", "words");
            const happened = new ClipboardEvent("paste", { bubbles: true, cancelable: true, clipboardData: transfer });
            node.dispatchEvent(happened);
            node.value = String(happened.defaultPrevented);
        }"""
    )
    expect(field).to_have_value("false")
    expect(page.locator(".attachment")).to_have_count(0)


def test_a_file_that_is_refused_has_its_reason_and_the_others_are_sent(visit, serving):
    page = visit(serving().url)
    pick(page, LARGE, PHOTO, {"name": "x.bin", "mimeType": "", "buffer": bytes(10)})
    failed = page.locator(".attachment[data-state=failed]")
    expect(failed).to_have_count(2)
    expect(failed.nth(0)).to_contain_text("more than 200,000 bytes")
    expect(failed.nth(1)).to_contain_text("its type is unknown")
    accessible(page)
    fits(page)
    page.get_by_label("Message", exact=True).fill("Hi")
    page.keyboard.press("Enter")
    expect(page.locator(".asked").get_by_role("img", name="photo.png")).to_be_visible()
    expect(failed).to_have_count(2)  # what was not sent stays in sight


def test_a_keyboard_attaches_and_removes(visit, serving):
    page = visit(serving().url)
    page.get_by_label("Message", exact=True).focus()
    page.keyboard.press("Shift+Tab")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files([PHOTO, NOTES])
    expect(page.locator(".attachment[data-state=sent]")).to_have_count(2)
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    for _ in range(2):
        page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="Remove notes.txt")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".attachment")).to_have_count(1)
    expect(page.get_by_role("button", name="Remove photo.png")).to_be_focused()
    expect(page.locator("#announcer")).to_have_text("notes.txt is removed")
    page.keyboard.press("Enter")
    expect(page.locator(".attachment")).to_have_count(0)
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    expect(page.get_by_role("button", name="Send")).to_be_disabled()


def test_files_are_attached_while_an_answer_is_written(visit, serving, tmp_path):
    page = visit(serving(waits=True).url)
    page.get_by_label("Message", exact=True).fill("One")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    pick(page, PHOTO)
    expect(page.locator(".attachment[data-state=sent]")).to_have_count(1)
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    (tmp_path / "go").touch()
    expect(page.locator(".answer")).to_contain_text("A gradient.")
    expect(page.locator(".attachment")).to_have_count(1)
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".asked").last.get_by_role("img", name="photo.png")).to_be_visible()


def test_files_stay_with_their_conversation(visit, serving):
    page = visit(serving().url)
    page.get_by_label("Message", exact=True).fill("One")
    page.keyboard.press("Enter")
    expect(page.locator(".answer")).to_contain_text("A gradient.")
    pick(page, PHOTO)
    expect(page.locator(".attachment")).to_have_count(1)
    page.goto(page.url.split("#")[0] + "#/tools")
    page.get_by_role("heading", name="Tools").first.wait_for()
    page.go_back()
    expect(page.locator(".attachment")).to_have_count(1)
    page.get_by_role("link", name="New conversation").click()
    expect(page.locator(".attachment")).to_have_count(0)
