"""The plugin surface, hook by hook: changing it is a visible change to hook_surface.txt and a line in the CHANGELOG."""

import inspect
import re
from pathlib import Path

from flexchat.plugin import hookspecs

SURFACE = Path(__file__).parent / "hook_surface.txt"
HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith("flexchat_")}
PROVISIONAL = {name for name, hook in HOOKS.items() if hook.flexchat_spec["warn_on_impl"]}


def surface() -> str:
    lines = [f"{name}({', '.join(inspect.signature(hook).parameters)})" for name, hook in HOOKS.items()]
    return "".join(f"{x}  provisional\n" if x.split("(")[0] in PROVISIONAL else f"{x}\n" for x in lines)


def test_the_hook_surface_is_as_written_down():
    """Every hook and its arguments, and whether it may change."""
    assert surface() == SURFACE.read_text()


def test_the_page_of_hooks_says_which_may_change():
    """docs/hooks.md has a table of them."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "hooks.md").read_text()
    table = page.split("## Stability\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(flexchat_\w+)` ", table, re.MULTILINE)) == PROVISIONAL


def test_every_hook_is_documented():
    """docs/plugins.md names every hook."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "plugins.md").read_text()
    for line in SURFACE.read_text().splitlines():
        assert line.split("(")[0] in page
