"""Media that a model is shown: within its limits, as text, smaller, or described."""

from __future__ import annotations

import io

import pytest
from flexchat import AssistantMessage, FlexChat, MediaPart, UserMessage
from flexchat.domain import ToolCall, ToolMessage
from flexchat.errors import MediaLimitError, ProviderOverloadedError
from flexchat.media_process import MAX_TEXT_CHARS, MediaProcessError, pdf_text, shrunk_image
from flexchat.plugin.contracts import MediaLimits
from flexchat_testing import ScriptedProvider
from PIL import Image
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

CONFIG = {"responses": [{"llm": "m", "model": "any"}]}
SOURCE = "https://example.com/limits"


def png(width=10, height=10, size=100):
    """A file whose header states a size; nothing decodes it."""
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    return header + width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes(size - 24)


def pdf(*texts, password=None):
    writer = PdfWriter()
    for text in texts:
        page = writer.add_blank_page(300, 300)
        font = DictionaryObject(
            {NameObject("/Type"): NameObject("/Font"), NameObject("/Subtype"): NameObject("/Type1")}
        )
        font[NameObject("/BaseFont")] = NameObject("/Helvetica")
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    if password:
        writer.encrypt(password)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


class Limited(ScriptedProvider):
    """A model with limits."""

    def __init__(self, limits, **settings):
        super().__init__(["ok"], repeat=True, **settings)
        self.limits = limits

    def media_limits(self, model):
        return self.limits

    def takes_in_results(self, model, part):
        return True


def limits(types=("image/png", "application/pdf"), **rest):
    return MediaLimits(types=types if isinstance(types, dict) else dict.fromkeys(types), source=SOURCE, **rest)


async def shown(provider, attachments=(), *, text="Look.", history=(), **config):
    """The messages that a model is sent, and the turn's warnings."""
    async with FlexChat.from_config({**CONFIG, **config}, providers={"m": provider}) as chat:
        turn = await chat.respond(text, attachments=attachments, history=history)
    return provider.requests[-1].messages, turn.response.warnings


@pytest.mark.parametrize("provider", [ScriptedProvider(["ok"]), Limited(limits())])
async def test_a_text_becomes_part_of_the_message_with_its_name(tmp_path, provider):
    path = tmp_path / "a.csv"
    path.write_text("\ufeffx,y\n1,2")
    messages, _ = await shown(provider, [path, png()])
    assert messages[-1].content == 'Look.\n\n<file name="a.csv">\nx,y\n1,2\n</file>'
    assert [part.mime_type for part in messages[-1].media] == ["image/png"]


@pytest.mark.parametrize(
    ("limit", "attachments", "reason"),
    [
        ({"types": {"image/png": 99}}, [png()], r"one of type image/png may have 99 bytes"),
        ({"types": ()}, [png()], "it reads text only"),
        ({"types": ("image/jpeg",)}, [png()], "it reads image/jpeg"),
        ({"max_side": 8000}, [png(8001, 1)], r"has 8,001 × 1 pixels, the longer side may have 8,000"),
        ({"max_pixels": 1000}, [png(50, 50)], r"has 50 × 50 pixels, 1,000 in all are allowed"),
        ({"max_count": 1}, [png(), png()], "a request may have 1 media"),
        ({"max_total_bytes": 150}, [png(), png()], "may have 150 bytes together"),
        ({"many_images": 1, "max_side_of_many": 20}, [png(), png(30)], "the longer side may have 20"),
        ({"max_pages": 1}, [pdf("one", "two")], "it has 2 pages, 1 are allowed"),
    ],
)
async def test_beyond_a_limit_nothing_is_sent_and_the_error_names_it(limit, attachments, reason):
    provider = Limited(limits(**limit))
    with pytest.raises(MediaLimitError, match=reason) as caught:
        await shown(provider, attachments)
    assert "cannot be sent to m/any" in str(caught.value)
    assert str(caught.value).endswith(f"({SOURCE})")
    assert provider.requests == []


async def test_within_its_limits_all_is_sent_unchanged():
    exact = limits({"image/png": 100, "application/pdf": None}, max_count=3, max_side=10, max_pixels=100, max_pages=2)
    messages, warnings = await shown(Limited(exact), [png(), png(), pdf("one", "two")])
    assert len(messages[-1].media) == 3
    assert warnings == ()


async def test_a_pdf_is_sent_as_text_with_the_numbers_of_its_pages_and_noted():
    provider = Limited(limits(("image/png",)))
    messages, warnings = await shown(
        provider, MediaPart(kind="document", mime_type="", data=pdf("one", "two"), name="a")
    )
    assert messages[-1] == UserMessage('Look.\n\n<file name="a">\n[Page 1]\none\n\n[Page 2]\ntwo\n</file>')
    assert any("as text: it reads no PDFs" in each for each in warnings)


async def test_earlier_media_that_a_model_cannot_read_are_described():
    image = MediaPart(kind="image", mime_type="image/png", data=png(), name="a.png")
    call = ToolCall(name="draw", arguments={}, id="c")
    history = [
        UserMessage("Before.", media=(image,)),
        AssistantMessage((call,)),
        ToolMessage(tool_call_id="c", name="draw", content="drawn", media=(image,)),
        AssistantMessage("Nice."),
    ]
    words = "a.png (image/png, 100 bytes): not shown, you cannot see it here"
    messages, _ = await shown(Limited(limits(())), history=history)
    assert messages[0] == UserMessage(f"Before.\n\n[{words}]")
    assert words in messages[2].content
    assert not messages[2].media

    messages, _ = await shown(Limited(limits(max_count=2)), [png()], history=history)
    assert [len(getattr(each, "media", ())) for each in messages] == [0, 0, 1, 0, 1], "the oldest is left out"


async def test_the_same_messages_are_returned_each_time():
    image = MediaPart(kind="image", mime_type="image/png", data=png())
    history = [UserMessage("Before.", media=(image,)), AssistantMessage("Nice.")]
    provider = Limited(limits(()))
    first, _ = await shown(provider, history=history)
    second, _ = await shown(provider, history=history)
    assert first[0] is second[0]


def photo(width, height, kind="JPEG"):
    file = io.BytesIO()
    Image.effect_noise((width, height), 80).convert("RGB").save(file, kind)
    return file.getvalue()


async def test_an_image_is_made_smaller_only_on_request():
    wide = photo(400, 200)
    provider = Limited(limits({"image/jpeg": 20_000}, max_side=100))
    with pytest.raises(MediaLimitError, match="20,000 bytes"):
        await shown(provider, wide)
    messages, warnings = await shown(provider, wide, media={"shrink": True})
    (part,) = messages[-1].media
    assert Image.open(io.BytesIO(part.data)).size == (100, 50)
    assert any("made smaller for m/any" in each for each in warnings)


async def test_an_image_is_made_smaller_until_it_has_few_enough_bytes():
    data, mime_type = await shrunk_image(photo(300, 300, "PNG"), max_bytes=20_000, max_side=None, max_pixels=40_000)
    assert (len(data) <= 20_000, mime_type) == (True, "image/png")


@pytest.mark.slow
async def test_damage_a_password_and_a_bomb_are_errors():
    with pytest.raises(MediaProcessError, match="damaged"):
        await pdf_text(b"%PDF-1.7 nothing else")
    with pytest.raises(MediaProcessError, match="encrypted"):
        await pdf_text(pdf("one", password="secret"))
    with pytest.raises(MediaProcessError, match="damaged"):
        await shrunk_image(png(), max_bytes=None, max_side=5, max_pixels=None)
    with pytest.raises(MediaProcessError, match="holds no text"):
        await pdf_text(pdf(""))
    text = await pdf_text(pdf("x" * 300_000, "y" * 300_000))
    assert len(text) < MAX_TEXT_CHARS
    assert "[Page 2 and those after it are left out" in text


@pytest.mark.slow
async def test_a_pdf_that_unpacks_to_far_more_is_refused():
    import zlib

    packer = zlib.compressobj(1)
    packed = b"".join([*(packer.compress(bytes(2**24)) for _ in range(16)), packer.flush()])  # 256 MiB
    head = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    page = b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>endobj\n"
    stream = b"4 0 obj<</Length %d/Filter/FlateDecode>>stream\n%b\nendstream endobj\n" % (len(packed), packed)
    provider = Limited(limits(("image/png",)))
    with pytest.raises(MediaLimitError, match=r"damaged|memory|no text"):
        await shown(provider, head + page + stream + b"trailer<</Root 1 0 R>>\n%%EOF")


class Down(ScriptedProvider):
    """A model whose service is down."""

    async def generate_chat(self, messages, model, options):
        raise ProviderOverloadedError("it is down", retryable=True)


@pytest.mark.parametrize("has_third", [True, False])
async def test_a_fallback_that_cannot_be_sent_the_media_is_passed_over(has_third):
    """The next one is asked; without one, the error is that of the service that failed."""
    narrow, wide = Limited(limits(types=())), Limited(limits())
    providers = {"first": Down(["never"]), "narrow": narrow, "wide": wide}
    config = {
        "llms": {name: {"provider": "scripted", "retries": 0} for name in providers},
        "responses": [
            {"llm": "first", "model": "m", "fallback": ["narrow", "wide"] if has_third else ["narrow"]},
        ],
    }
    for name in ("narrow", "wide"):
        config["llms"][name]["default_model"] = "m"
    async with FlexChat.from_config(config, providers=providers) as chat:
        if not has_third:
            with pytest.raises(ProviderOverloadedError, match="it is down"):
                await chat.respond("Look.", attachments=png())
            return
        turn = await chat.respond("Look.", attachments=png())
    assert (narrow.requests, len(wide.requests)) == ([], 1)
    assert any(
        "narrow was not asked instead" in warning and "it reads text only" in warning
        for warning in turn.response.warnings
    )
