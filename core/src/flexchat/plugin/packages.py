"""Which package provides a name that no installed plugin offers, according to packages.toml."""

from __future__ import annotations

import functools
from pathlib import Path


def package_with(kind: str, name: str) -> str | None:
    """Return the package that provides a name, "flexchat-openai"; None if it is not in the file.

    Args:
        kind: As in error messages: "provider", "implementation type", "command".
    """
    return _packages().get((kind, name))


def packaged_names(kind: str) -> list[str]:
    """Return the names of a kind that packages provide, installed or not."""
    return [name for package_kind, name in _packages() if package_kind == kind]


@functools.cache
def _packages() -> dict[tuple[str, str], str]:
    import tomllib  # imports regular expressions: only when a hint is needed

    tables = tomllib.loads(Path(__file__).with_name("packages.toml").read_text("utf-8"))
    return {
        (kind, name): package for package, brings in tables.items() for kind, names in brings.items() for name in names
    }
