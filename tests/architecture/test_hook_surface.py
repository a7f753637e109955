"""The plugin surface, hook by hook: changing it is a visible change to hook_surface.txt and a line in the CHANGELOG."""

import inspect
from pathlib import Path

from flexchat.plugin import hookspecs

SURFACE = Path(__file__).parent / "hook_surface.txt"


def surface() -> str:
    hooks = {n: h for n, h in vars(hookspecs).items() if n.startswith("flexchat_")}
    return "".join(f"{name}({', '.join(inspect.signature(hook).parameters)})\n" for name, hook in hooks.items())


def test_the_hook_surface_is_as_written_down():
    """Every hook and its arguments."""
    assert surface() == SURFACE.read_text()


def test_every_hook_is_documented():
    """docs/plugins.md names every hook."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "plugins.md").read_text()
    for line in SURFACE.read_text().splitlines():
        assert line.split("(")[0] in page
