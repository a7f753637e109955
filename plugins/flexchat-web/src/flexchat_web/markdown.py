"""Markdown as HTML that is safe to show, at a cost known in advance."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MAX_CHARACTERS = 100_000
"""Most characters rendered per request; further texts are shown as they are."""

MAX_PRICE = 100_000
"""The cost up to which texts are rendered; further ones are shown as they are. A unit takes up to 30 µs."""

QUICK = 400
"""The cost of what may be rendered in the event loop: a usual answer."""

_MARKS = '![]()<>*_`~|\\&#-+"'
_LINE = 4  # a line is a block to be looked for, and an item of a list
_CHARACTERS = 16  # that are no marks, for one unit
_MAX_CELLS = 65_536  # markdown-it fills up no more cells of a table

_SCHEMES = ("http:", "https:", "mailto:")


def all_rendered(texts: Iterable[str]) -> list[str]:
    """Render texts as HTML; those beyond MAX_CHARACTERS or MAX_PRICE are returned unchanged."""
    from markdown_it.common.utils import escapeHtml

    length, paid, html = 0, 0, []
    for text in texts:
        length, paid = length + len(text), paid + price(text)
        dear = length > MAX_CHARACTERS or paid > MAX_PRICE
        html.append(f"<pre>{escapeHtml(text)}</pre>\n" if dear else rendered(text))
    return html


def price(text: str) -> int:
    """Return the most it can cost to render a text: a unit for each mark, and for each table cell.

    A short row in a wide table is filled with empty cells, which have no characters in the text.
    """
    lines = text.count("\n") + 1
    units = len(text) // _CHARACTERS + _LINE * lines + sum(map(text.count, _MARKS))
    if "|" in text:
        units += min(lines * max(line.count("|") for line in text.split("\n")), _MAX_CELLS)
    return units


def rendered(text: str) -> str:
    """Return CommonMark with tables as HTML that is safe whatever the text contains.

    Raw HTML is shown, not interpreted; images become links; links lead to the web or to mail, in a new page.
    """
    html: str = _renderer().render(text)
    return html


@cache
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.common.utils import escapeHtml

    # maxNesting bounds blocks in blocks and marks in marks: a text of nothing but ">" does not overflow the stack.
    renderer = MarkdownIt("commonmark", {"html": False, "maxNesting": 20})
    renderer.enable(["table", "strikethrough"]).disable(["html_block", "html_inline"])
    renderer.validateLink = lambda url: url.strip().lower().startswith(_SCHEMES)  # type: ignore[method-assign]

    def link_open(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
        tokens[index].attrSet("rel", "noopener noreferrer")
        tokens[index].attrSet("target", "_blank")
        env["links"] = env.get("links", 0) + 1
        opened: str = self.renderToken(tokens, index, options, env)
        return opened

    def link_close(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
        env["links"] -= 1
        closed: str = self.renderToken(tokens, index, options, env)
        return closed

    def image(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
        address = escapeHtml(str(tokens[index].attrGet("src") or ""))
        alt = escapeHtml(self.renderInlineAsText(tokens[index].children, options, env))
        text = f"{alt or address} (image)"
        return text if env.get("links") else f'<a href="{address}" rel="noopener noreferrer" target="_blank">{text}</a>'

    def cell_open(self: Any, tokens: Any, index: int, options: Any, env: Any) -> str:
        # The page's policy forbids style attributes.
        aligned = tokens[index].attrs.pop("style", "").removeprefix("text-align:")
        if aligned:
            tokens[index].attrSet("class", f"align-{aligned}")
        opened: str = self.renderToken(tokens, index, options, env)
        return opened

    renderer.add_render_rule("th_open", cell_open)
    renderer.add_render_rule("td_open", cell_open)
    renderer.add_render_rule("link_open", link_open)
    renderer.add_render_rule("link_close", link_close)
    renderer.add_render_rule("image", image)
    return renderer
