"""A hook of mkdocs: the pages in groups, and links that leave docs/ as paths in the checkout."""

import re
from pathlib import Path
from typing import Any

GROUPS = {
    "Begin": ("index", "providers", "config", "python-api", "reference"),
    "Use": ("routing", "tool-calls", "effects", "conversations", "documents", "http-tools", "mcp", "validation"),
    "Serve": ("http-api", "reliability"),
    "Extend": ("plugins", "hooks", "writing-*"),
    "Contribute": ("architecture", "schema-dialects", "departures", "requirements"),
}
_OUTSIDE = re.compile(
    r"\[([^\]]*)\]\((?:\.\./)+((?!\S+\.md)[^)#\s]*|(?:CHANGELOG|CONTRIBUTING|SECURITY|README)\.md)[^)\s]*\)"
)


def on_config(config: Any) -> Any:
    """Put every page into its group; one that is in none comes under "Use"."""
    root = Path(config.docs_dir)
    there = sorted(root.rglob("*.md"))
    nav = {
        group: [str(page.relative_to(root)) for name in names for page in there if page.match(f"{name}.md")]
        for group, names in GROUPS.items()
    }
    known = {name for pages in nav.values() for name in pages}
    nav["Use"] += [page.name for page in there if str(page.relative_to(root)) not in known]
    config.nav = [{group: pages} for group, pages in nav.items()]
    return config


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return a page's text without links that lead nowhere on the site."""
    return _OUTSIDE.sub(lambda m: f"{m[1]} (`{m[2]}`)", markdown)


def on_post_page(output: str, **_: object) -> str:
    """Take the search's stand-in for a worker from the site instead of from somebody's server."""
    return output.replace("https://unpkg.com/iframe-worker/shim", "assets/javascripts/worker.js")


def on_post_build(config: Any) -> None:
    """Put that stand-in there."""
    there = Path(config.site_dir) / "assets" / "javascripts" / "worker.js"
    there.write_bytes(Path(__file__).with_name("worker.js").read_bytes())
