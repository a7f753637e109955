"""The type of data, by their bytes; names of files; sizes of images by their headers."""

from __future__ import annotations

import pytest
from flexchat.domain.media import attached_part, clean_name, detect_type, image_size
from hypothesis import given
from hypothesis import strategies as st

BEGINNINGS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\0\0\0\0WEBP",
    "image/heic": b"\0\0\0\x18ftypheic",
    "image/heif": b"\0\0\0\x18ftypmif1",
    "application/pdf": b"%PDF-1.7",
    "audio/wav": b"RIFF\0\0\0\0WAVE",
    "audio/aiff": b"FORM\0\0\0\0AIFF",
    "audio/flac": b"fLaC",
    "audio/ogg": b"OggS",
    "audio/aac": b"\xff\xf1",
    "audio/mpeg": b"ID3\x04",
    "audio/mp4": b"\0\0\0\x20ftypM4A ",
    "video/quicktime": b"\0\0\0\x14ftypqt  ",
    "video/3gpp": b"\0\0\0\x14ftyp3gp4",
    "video/mp4": b"\0\0\0\x20ftypisom",
    "video/webm": b"\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01B\x82\x84webm",
    "video/mpeg": b"\0\0\x01\xba",
    "video/x-flv": b"FLV\x01",
    "video/x-msvideo": b"RIFF\0\0\0\0AVI ",
    "video/x-ms-wmv": b"\x30\x26\xb2\x75\x8e\x66\xcf\x11",
    "text/plain": "Grüße\n".encode(),
}


@pytest.mark.parametrize("mime_type", BEGINNINGS)
def test_a_type_is_detected_whatever_is_declared_as_nothing(mime_type):
    data = BEGINNINGS[mime_type]
    assert detect_type(data) == mime_type
    for declared in ("", "application/octet-stream", f"{mime_type}; charset=utf-8", mime_type.upper()):
        assert attached_part(data, declared=declared).mime_type == mime_type


@pytest.mark.parametrize("declared", ["text/csv", "application/json", "image/svg+xml", "text/plain"])
def test_a_text_of_any_declared_kind_is_a_text(declared):
    assert attached_part(b"<svg/>", declared=declared).mime_type == "text/plain"


@given(st.sampled_from(sorted(BEGINNINGS)), st.sampled_from(sorted(BEGINNINGS)))
def test_one_type_declared_as_another_is_refused(one, other):
    if one != other and (one, other) != ("text/plain", "text/plain"):
        with pytest.raises(ValueError, match="declared as"):
            attached_part(BEGINNINGS[one], declared=other)


@given(st.text(max_size=300))
def test_a_name_is_one_printable_part_of_a_path(name):
    cleaned = clean_name(name)
    assert cleaned is None or (cleaned.isprintable() and len(cleaned) <= 100)
    assert cleaned is None or (not set(cleaned) & set("/\\") and cleaned.strip(".") != "")


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\photos\\a.png", "a.png"),
        ("..", None),
        ("a\x1b[31m\u202egnp.png", "a [31m gnp.png"),
        ("x" * 200 + ".png", "x" * 89 + ".png"),
    ],
)
def test_a_name_keeps_its_suffix_and_loses_the_rest(name, cleaned):
    assert clean_name(name) == cleaned


@given(st.binary(max_size=200))
def test_any_bytes_have_a_type_or_none_and_a_size_or_none(data):
    for beginning in (b"", *BEGINNINGS.values()):
        detect_type(beginning + data)
        image_size(beginning + data)


def test_sizes_are_read_from_headers():
    from io import BytesIO

    image = pytest.importorskip("PIL.Image").new("RGB", (321, 123))
    for kind, options in [
        ("PNG", {}),
        ("GIF", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"}),
    ]:
        file = BytesIO()
        image.save(file, kind, **options)
        assert image_size(file.getvalue()) == (321, 123), (kind, options)
        assert image_size(file.getvalue()[:20]) is None or kind in ("GIF", "PNG")
