"""HTML pages (.html), e-mail (.eml) and saved web pages (.mht)."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import TYPE_CHECKING

from .encoding import SETTLES, TextFile
from .sections import Piece, Reading, Section, SectionBuilder, UnreadableFileError, check_size, parsing

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

MAX_FRAME_DEPTH = 3
"""Pages in pages (the srcdoc of an iframe)."""

_NO_TEXT = {"script", "style", "head", "link", "meta", "param", "source", "track", "-comment", "rp"}
_LEFT_OUT = {
    "nav": "navigation block#",
    "template": "template#",
    "button": "button#",
    "audio": "recording#",
    "video": "video#",
    "embed": "embedded object#",
    "frame": "frame#",
}
_BLOCKS = {
    *("address", "article", "aside", "blockquote", "body", "dd", "details", "dialog", "div", "dl", "dt", "fieldset"),
    *("figcaption", "figure", "footer", "form", "header", "hr", "li", "main", "ol", "p", "pre", "section", "summary"),
    *("table", "tr", "tbody", "thead", "tfoot", "caption", "ul", "h1", "h2", "h3", "h4", "h5", "h6"),
    *("option", "textarea", "legend", "noscript", "object"),
}
_TIGHT = {"li", "tr", "dt", "dd", "option"}
_LOOSE_AFTER = {"ul", "ol", "dl", "table", "select"}
_HEADING = re.compile(r"h[1-6]")
_UNSEEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_TYPED = {"", "text", "search", "url", "email", "tel", "number", "date", "time", "datetime-local", "month", "week"}


class Page:
    """Collects the text of a page, without recursion, because pages may be nested deeper than Python's stack."""

    def __init__(self, builder: SectionBuilder, reading: Reading, frames: int = 0) -> None:
        self._builder, self._reading, self._frames = builder, reading, frames
        self._words: list[str] = []
        self._pre = 0
        self._said = 0  # how many words there have been
        self._labelled: list[tuple[int, str, int]] = []  # elements with an aria-label, and the word count before each

    def sections(self, body: LexborNode) -> Iterator[Section]:
        """Yield the sections below an element."""
        node, inside = body, True
        while True:
            tag = node.tag or ""
            if not inside:
                yield from self._leave(node, tag)
            elif tag == "iframe":
                yield from self._frame(node)
            elif not self._is_left_out(node, tag):
                self._enter(node, tag)
                child = node.first_child
                if child is not None:
                    node = child
                    continue
                yield from self._leave(node, tag)
            if node.mem_id == body.mem_id:
                return
            following = node.next
            if following is not None:
                node, inside = following, True
            elif node.parent is not None:
                node, inside = node.parent, False
            else:
                return

    def _is_left_out(self, node: LexborNode, tag: str) -> bool:
        if tag in _NO_TEXT:
            return True
        name = _LEFT_OUT.get(tag)
        if name is None and tag[:1] != "-":
            attributes = node.attributes
            hidden = "hidden" in attributes and attributes["hidden"] != "until-found"
            if hidden or _UNSEEN.search(attributes.get("style") or ""):
                name = "hidden element#"
        if name is None:
            return False
        self._reading.unread[name] += 1
        return True

    def _enter(self, node: LexborNode, tag: str) -> None:
        if tag == "-text":
            text = node.text_content or ""
            self._say(text if self._pre else re.sub(r"\s+", " ", text))
            return
        if tag == "br":
            self._words.append("\n")
        elif tag in _BLOCKS:
            if self._words != ["- "]:  # a paragraph in an item belongs behind its dash
                self._end_block(tag)
            if tag in ("pre", "textarea"):
                self._pre += 1
            elif tag == "li":
                self._words.append("- ")
        elif tag in ("img", "area"):
            self._picture(node, tag)
        elif tag == "input":
            self._input(node)
        elif tag in ("object", "canvas"):
            self._reading.unread["embedded object#"] += 1  # fallback content, for readers that cannot show the element
        label = (node.attributes.get("aria-label") or "").strip()
        if label or tag == "svg":
            self._labelled.append((node.mem_id, label, self._said))

    def _picture(self, node: LexborNode, tag: str) -> None:
        texts = [node.attributes.get(name) for name in ("alt", "aria-label", "title")]
        text = next((" ".join(each.split()) for each in texts if each and each.strip()), "")
        if text:
            self._say(f"[Picture: {text}]" if tag == "img" else f"{text} ")
        elif tag == "img" and "alt" not in node.attributes:  # an empty alternative text marks a decorative image
            self._reading.unread["picture# without a text"] += 1

    def _input(self, node: LexborNode) -> None:
        kind = (node.attributes.get("type") or "").casefold()
        value = node.attributes.get("alt" if kind == "image" else "value")
        if value and (kind in _TYPED or kind == "image"):
            self._say(f" {value} ")

    def _frame(self, node: LexborNode) -> Iterator[Section]:
        from selectolax.lexbor import LexborHTMLParser

        inner = node.attributes.get("srcdoc")
        body = LexborHTMLParser(inner).body if inner and self._frames < MAX_FRAME_DEPTH else None
        if body is None:
            self._reading.unread["embedded page#"] += 1
            return
        self._end_block("div")
        yield from Page(self._builder, self._reading, self._frames + 1).sections(body)

    def _leave(self, node: LexborNode, tag: str) -> Iterator[Section]:
        if self._labelled and self._labelled[-1][0] == node.mem_id:
            _, label, words_before = self._labelled.pop()
            if words_before == self._said and label:  # an icon, for example: the label is its only text
                self._say(f" {label} ")
            elif words_before == self._said:
                self._reading.unread["drawing# without a text"] += 1
        if _HEADING.fullmatch(tag):
            title, self._words = "".join(self._words), []
            yield from self._builder.heading(int(tag[1]), title)
        elif tag in ("td", "th"):
            self._words.append(" | ")
        elif tag in ("title", "desc", "text"):  # of a drawing
            self._words.append(" ")
        elif tag in ("abbr", "dfn") and node.attributes.get("title"):
            self._say(f" ({node.attributes['title']})")
        elif tag in _BLOCKS:
            self._end_block(tag, code=self._pre == 1 and tag == "pre")
            self._pre -= tag in ("pre", "textarea")
        if tag in _LOOSE_AFTER:
            self._builder.add("\n")
        if tag in _BLOCKS:
            yield from self._builder.ready()

    def _say(self, text: str) -> None:
        self._words.append(text)
        self._said += bool(text.strip())

    def _end_block(self, tag: str, *, code: bool = False) -> None:
        text, self._words = "".join(self._words), []
        if self._pre:
            text = text.strip("\n")
        else:
            text = "\n".join(" ".join(line.split()) for line in text.split("\n")).strip().removesuffix(" |")
        if text.strip() and text != "-":
            self._builder.add(f"```\n{text}\n```\n\n" if code else text + ("\n" if tag in _TIGHT else "\n\n"))


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
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise UnreadableFileError(f"has {size:,} bytes, which is more than the {MAX_BYTES:,} an HTML page may have")
    with path.open("rb") as raw:
        label = _label(raw.read(4096), reading)
    with TextFile(path, reading, label=label) as file:
        text = file.read()
        yield from html_sections(text, SectionBuilder(), reading)
        yield from file.troubles()


def html_sections(text: str, builder: SectionBuilder, reading: Reading) -> Iterator[Piece]:
    """Yield the text of a page.

    Raises:
        UnreadableFileError: The page is too large or too deeply nested.
    """
    from selectolax.lexbor import LexborHTMLParser

    if len(text) > MAX_BYTES:
        raise UnreadableFileError(f"holds a page of more than {MAX_BYTES:,} characters")
    if _depth(text.encode("utf-8", "replace")) > MAX_DEPTH:
        raise UnreadableFileError(f"nests more than {MAX_DEPTH:,} elements in each other")
    tree = LexborHTMLParser(text)
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


MAX_MAIL_BYTES = 50_000_000
_MAIL_HEADERS = ("From", "To", "Cc", "Date")


def read_mail(path: Path, reading: Reading) -> Iterator[Piece]:
    """Yield headers and text, decoded. Of multipart/alternative, the plain text is used.

    Raises:
        UnreadableFileError: The file is too large, has no headers, or is damaged.
    """
    check_size(path, MAX_MAIL_BYTES)
    with parsing("e-mail"):
        message = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        subject = str(message.get("Subject") or "")
        headers = [f"{name}: {message[name]}" for name in _MAIL_HEADERS if message.get(name)]
        if not message.keys():
            raise UnreadableFileError("is not an e-mail: it has no headers")
        body = message.get_body(("plain", "html"))
        content = body.get_content() if body is not None and body.get_content_maintype() == "text" else ""
        attached = [part.get_filename() or part.get_content_type() for part in message.iter_attachments()]
    builder = SectionBuilder()
    yield from builder.heading(0, subject)
    if headers:
        builder.add("\n".join(headers) + "\n\n")
    if body is not None and body.get_content_subtype() == "html":
        yield from html_sections(str(content), builder, reading)
    else:
        for paragraph in str(content).replace("\r\n", "\n").split("\n\n"):
            builder.add(f"{paragraph}\n\n")
            yield from builder.ready()
    yield from builder.end()
    reading.unread["attachment#"] += len(attached)
