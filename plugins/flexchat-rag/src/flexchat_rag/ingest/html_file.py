"""HTML: title, headings and text, without scripts, styles and navigation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .encoding import likely_encoding
from .sections import Section, SectionBuilder, UnreadableFileError

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

MOST_BYTES = 20_000_000
"""A page is held as a tree, which takes many times its size."""

DEEPEST = 5_000
"""Elements in each other: the parser's time grows with the square of it (100,000 take 20 seconds, these 0.1)."""

_LEFT_OUT = {
    *("script", "style", "nav", "template", "noscript", "svg", "iframe", "head", "object", "canvas"),
    *("button", "select", "input", "textarea", "-comment"),
}
_BLOCKS = {
    *(
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
    ),
    *("figure", "footer", "form", "header", "hr", "li", "main", "ol", "p", "pre", "section", "summary", "table", "tr"),
    *("tbody", "thead", "tfoot", "caption", "ul", "h1", "h2", "h3", "h4", "h5", "h6"),
}
_TIGHT = {"li", "tr", "dt", "dd"}
_LOOSE_AFTER = {"ul", "ol", "dl", "table"}
_HEADING = re.compile(r"h[1-6]")
# Elements that the next one of their kind closes, and those that have no end, make no depth.
_TAG = re.compile(
    rb"<(/?)(?!(?:p|li|dt|dd|td|th|tr|option|area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)\b)"
    rb"[a-zA-Z][^\s/>]*",
    re.IGNORECASE,
)
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w-]+)", re.IGNORECASE)


def read_html(path: Path) -> Iterator[Section]:
    """Yield the text under each heading; the page's title stands above them.

    Raises:
        UnreadableFileError: It is too large, or its elements stand too deep in each other.
    """
    from selectolax.lexbor import LexborHTMLParser

    size = path.stat().st_size
    if size > MOST_BYTES:
        raise UnreadableFileError(f"has {size:,} bytes, which is more than the {MOST_BYTES:,} an HTML page may have")
    content = path.read_bytes()
    if _depth(content) > DEEPEST:
        raise UnreadableFileError(f"nests more than {DEEPEST:,} elements in each other")
    tree = LexborHTMLParser(_decoded(content))
    title = tree.css_first("title")
    builder = SectionBuilder()
    yield from builder.heading(0, title.text() if title is not None else "")
    if tree.body is not None:
        yield from _Page(builder).sections(tree.body)
    yield from builder.end()


class _Page:
    """The text of a page, element by element; no recursion, since a page may be deeper than Python's stack."""

    def __init__(self, builder: SectionBuilder) -> None:
        self._builder = builder
        self._words: list[str] = []
        self._pre = 0

    def sections(self, body: LexborNode) -> Iterator[Section]:
        node, inside = body, True
        while True:
            tag = node.tag or ""
            if inside and tag not in _LEFT_OUT:
                self._enter(node, tag)
                child = node.first_child
                if child is not None:
                    node = child
                    continue
            if tag not in _LEFT_OUT:
                yield from self._leave(tag)
            if node.mem_id == body.mem_id:
                return
            following = node.next
            if following is not None:
                node, inside = following, True
            elif node.parent is not None:
                node, inside = node.parent, False
            else:
                return

    def _enter(self, node: LexborNode, tag: str) -> None:
        if tag == "-text":
            text = node.text_content or ""
            self._words.append(text if self._pre else re.sub(r"\s+", " ", text))
        elif tag == "br":
            self._words.append("\n")
        elif tag in _BLOCKS:
            if self._words != ["- "]:  # a paragraph in an item belongs behind its dash
                self._end_block(tag)
            if tag == "pre":
                self._pre += 1
            elif tag == "li":
                self._words.append("- ")

    def _leave(self, tag: str) -> Iterator[Section]:
        if _HEADING.fullmatch(tag):
            title, self._words = "".join(self._words), []
            yield from self._builder.heading(int(tag[1]), title)
        elif tag in ("td", "th"):
            self._words.append(" | ")
        elif tag in _BLOCKS:
            self._end_block(tag, code=self._pre == 1 and tag == "pre")
            self._pre -= tag == "pre"
            if tag in _LOOSE_AFTER:
                self._builder.add("\n")
            if self._builder.full:
                yield from self._builder.flush()

    def _end_block(self, tag: str, *, code: bool = False) -> None:
        text, self._words = "".join(self._words), []
        if self._pre:
            text = text.strip("\n")
        else:
            text = "\n".join(line.strip() for line in text.split("\n")).strip().removesuffix(" |")
        if text.strip() and text != "-":
            self._builder.add(f"```\n{text}\n```\n\n" if code else text + ("\n" if tag in _TIGHT else "\n\n"))


def _depth(content: bytes) -> int:
    depth = deepest = 0
    for match in _TAG.finditer(content):
        depth = max(0, depth - 1) if match[1] else depth + 1
        deepest = max(deepest, depth)
    return deepest


def _decoded(content: bytes) -> str:
    for mark, name in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if content.startswith(mark):
            return content.decode(name, "replace")
    if b"\0" in content[:4096]:
        raise UnreadableFileError("is no text: it holds binary data")
    try:
        return content.decode()
    except UnicodeDecodeError:
        said = _CHARSET.search(content, 0, 4096)
        try:
            return content.decode(said[1].decode() if said else likely_encoding(content), "replace")
        except LookupError:
            return content.decode(likely_encoding(content), "replace")
