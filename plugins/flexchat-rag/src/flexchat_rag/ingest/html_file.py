"""HTML files: decoding and parsing. html_page extracts the text of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .encoding import SETTLES, TextFile
from .html_page import Page
from .sections import Piece, Reading, SectionBuilder, UnreadableFileError

MAX_BYTES = 20_000_000
"""A page is held as a tree, which takes many times its size."""

MAX_DEPTH = 5_000
"""Elements in each other: the parser's time grows with the square of it (100,000 take 20 seconds, these 0.1)."""

# Void elements, and those that the next element of their kind closes, do not add depth.
_TAG = re.compile(
    rb"<(/?)(?!(?:p|li|dt|dd|td|th|tr|option|area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)\b)"
    rb"[a-zA-Z][^\s/>]*",
    re.IGNORECASE,
)
_LABELS = (
    re.compile(rb"\A\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", re.IGNORECASE),
    re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE),
)


def read_html(path: Path, reading: Reading) -> Iterator[Piece]:
    """Yield the text under each heading, with the page's title as the outermost one.

    Raises:
        UnreadableFileError: The file is too large or too deeply nested.
    """
    from selectolax.lexbor import LexborHTMLParser

    size = path.stat().st_size
    if size > MAX_BYTES:
        raise UnreadableFileError(f"has {size:,} bytes, which is more than the {MAX_BYTES:,} an HTML page may have")
    content = path.read_bytes()
    if _depth(content) > MAX_DEPTH:
        raise UnreadableFileError(f"nests more than {MAX_DEPTH:,} elements in each other")
    with TextFile(path, reading, label=_label(content[:4096], reading)) as file:
        tree = LexborHTMLParser(file.read())
        yield from file.troubles()
    yield from _sections(tree, SectionBuilder(), reading)


def html_sections(text: str, builder: SectionBuilder, reading: Reading) -> Iterator[Piece]:
    """Yield the text of a page embedded in another file.

    Raises:
        UnreadableFileError: The page is too large or too deeply nested.
    """
    from selectolax.lexbor import LexborHTMLParser

    if len(text) > MAX_BYTES:
        raise UnreadableFileError(f"holds a page of more than {MAX_BYTES:,} characters")
    if _depth(text.encode("utf-8", "replace")) > MAX_DEPTH:
        raise UnreadableFileError(f"nests more than {MAX_DEPTH:,} elements in each other")
    yield from _sections(LexborHTMLParser(text), builder, reading)


def _sections(tree: Any, builder: SectionBuilder, reading: Reading) -> Iterator[Piece]:
    title = tree.head.css_first("title") if tree.head is not None else None
    yield from builder.heading(0, title.text() if title is not None else "")
    about = tree.head.css_first("meta[name='description' i]") if tree.head is not None else None
    if about is not None and (about.attributes.get("content") or "").strip():
        builder.add(f"{' '.join((about.attributes['content'] or '').split())}\n\n")
    if tree.body is not None:
        yield from Page(builder, reading).sections(tree.body)
    else:
        reading.unread["frame#"] += len(tree.css("frame"))
    yield from builder.end()


def _depth(content: bytes) -> int:
    depth = deepest = 0
    for match in _TAG.finditer(content):
        depth = max(0, depth - 1) if match[1] else depth + 1
        deepest = max(deepest, depth)
    return deepest


def _label(head: bytes, reading: Reading) -> str | None:
    """Return the encoding declared in the XML declaration, else in a meta element."""
    labels = [match[1].decode() for label in _LABELS if (match := label.search(head))]
    if len({name.casefold() for name in labels}) > 1:
        reading.note(f"names two encodings, {' and '.join(labels)}, of which the first was used; {SETTLES}")
    # A label that was found by reading ASCII cannot be UTF-16 (HTML Standard, 13.2.3.2).
    return "utf-8" if labels and labels[0].casefold().startswith("utf-16") else labels[0] if labels else None
