"""A hook of mkdocs: links that leave docs/, to a package's page for example, become the path in the checkout."""

import re

_OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)#\s]*)[^)\s]*\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return a page's text without links that lead nowhere on the site."""
    return _OUTSIDE.sub(lambda m: f"{m[1]} (`{m[2]}`)", markdown)
