"""Work on media that may be hostile, in a process of its own: the text of a PDF, and images made smaller.

A file may take for ever, or all memory: the process has limits for both, a low priority, and is ended after a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import json
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .installing import how_to_install

if TYPE_CHECKING:
    from pypdf import PdfReader

TIMEOUT_S = 30.0
MAX_MEMORY = 1 << 30
MAX_TEXT_CHARS = 500_000  # of a PDF
_AT_ONCE = 2  # processes for one event loop

_slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = weakref.WeakKeyDictionary()


class MediaProcessError(Exception):
    """A file could not be worked on; the text completes a sentence about it."""


def reads_pdfs() -> bool:
    """Return whether pypdf is installed."""
    return importlib.util.find_spec("pypdf") is not None


async def count_pages(data: bytes) -> int:
    """Return the number of pages of a PDF; pypdf must be installed. Raises MediaProcessError."""
    pages: int = (await _run("pages", data, {}))[0]["pages"]
    return pages


async def pdf_text(data: bytes) -> str:
    """Return the text of a PDF with the numbers of its pages. Raises MediaProcessError."""
    if not reads_pdfs():
        raise MediaProcessError(f"reading its text needs pypdf: {how_to_install('flexchat-core', 'pdf')}")
    return (await _run("text", data, {"max_chars": MAX_TEXT_CHARS}))[1].decode()


async def shrunk_image(data: bytes, **limits: int | None) -> tuple[bytes, str]:
    """Return an image within limits (max_bytes, max_side, max_pixels), and its media type. Raises MediaProcessError."""
    if importlib.util.find_spec("PIL") is None:
        raise MediaProcessError(f"making it smaller needs Pillow: {how_to_install('flexchat-core', 'images')}")
    about, image = await _run("shrink", data, limits)
    return image, about["mime_type"]


async def _run(work: str, data: bytes, options: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    slots = _slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_AT_ONCE))
    async with slots:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", __name__, work, json.dumps(options)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                output, _ = await process.communicate(data)
        except TimeoutError:
            raise MediaProcessError(f"it takes longer than {TIMEOUT_S:g} s to read") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
    head, _, content = output.partition(b"\n")
    if process.returncode != 0 or not head:
        raise MediaProcessError(f"it needs more than {MAX_MEMORY >> 20:,} MiB of memory, or too long, to read")
    about = json.loads(head)
    if "error" in about:
        raise MediaProcessError(about["error"])
    return about, content


def _limit() -> None:
    with contextlib.suppress(ImportError, OSError, ValueError):  # elsewhere than on Unix
        import os
        import resource

        os.nice(10)
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (int(TIMEOUT_S), int(TIMEOUT_S)))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _pages(data: bytes) -> tuple[dict[str, Any], bytes]:
    return {"pages": len(_opened(data).pages)}, b""


def _opened(data: bytes) -> PdfReader:
    from pypdf import PasswordType, PdfReader

    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
        raise MediaProcessError("the PDF is encrypted: save a copy of it without a password")
    return reader


def _text(data: bytes, *, max_chars: int) -> tuple[dict[str, Any], bytes]:
    reader = _opened(data)
    texts, chars = [], 0
    for number, page in enumerate(reader.pages, start=1):
        text = page.extract_text().strip()
        chars += len(text)
        if chars > max_chars:
            texts.append(f"[Page {number} and those after it are left out: the text is too long]")
            break
        texts.append(f"[Page {number}]\n{text}")
    if not chars:
        raise MediaProcessError("it holds no text, only pictures of pages: recognise the text (OCR) first")
    return {}, "\n\n".join(texts).encode("utf-8", "replace")


def _shrink(
    data: bytes, *, max_bytes: int | None, max_side: int | None, max_pixels: int | None
) -> tuple[dict[str, Any], bytes]:
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = None  # the caller has read the size, and the memory is limited
    image: Any = Image.open(io.BytesIO(data))
    kind = image.format if image.format in ("JPEG", "PNG", "WEBP") else "PNG"
    width, height = image.size
    scale = min(
        1.0, (max_side or width) / max(width, height), ((max_pixels or width * height) / (width * height)) ** 0.5
    )
    side = int(max(width, height) * scale)
    image.draft("RGB", (side, side))  # a JPEG is decoded at a smaller size
    image = ImageOps.exif_transpose(image)
    while side > 0:
        image.thumbnail((side, side))
        file = io.BytesIO()
        image.save(file, kind)
        if max_bytes is None or len(file.getvalue()) <= max_bytes:
            return {"mime_type": f"image/{kind.lower()}"}, file.getvalue()
        side = int(side * 0.75)
    raise MediaProcessError(f"it cannot be made smaller than {max_bytes:,} bytes")


def _main() -> None:
    _limit()
    works: dict[str, Callable[..., tuple[dict[str, Any], bytes]]] = {"pages": _pages, "text": _text, "shrink": _shrink}
    try:
        about, content = works[sys.argv[1]](sys.stdin.buffer.read(), **json.loads(sys.argv[2]))
    except MediaProcessError as error:
        about, content = {"error": str(error)}, b""
    except MemoryError:
        about, content = {"error": f"it needs more than {MAX_MEMORY >> 20:,} MiB of memory to read"}, b""
    except Exception as error:  # noqa: BLE001  damaged files raise anything, and it must reach the caller
        about, content = {"error": f"it is damaged, and cannot be read ({type(error).__name__})"}, b""
    sys.stdout.buffer.write(json.dumps(about).encode() + b"\n" + content)


if __name__ == "__main__":
    _main()
