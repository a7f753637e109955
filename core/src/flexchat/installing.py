"""Hints for what is not installed: the package that provides a name, and the command that installs it."""

from __future__ import annotations

import functools
import json
import re
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

_FOLDERS = {"flexchat": ".", "flexchat-core": "core"}


def package_with(kind: str, name: str) -> str | None:
    """Return the package that provides a name, "flexchat-openai", according to packages.toml; None if none does.

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


def how_to_install(package: str, extra: str = "") -> str:
    """Return the command: "pip install flexchat-openai", or its folder of the checkout that the core comes from.

    Args:
        extra: Of the package: "regex" gives "pip install 'flexchat-core[regex]'".
    """
    checkout = _checkout()
    folder = _folder(checkout, package) if checkout is not None else None
    if checkout is None or folder is None:
        return f"pip install {shlex.quote(f'{package}[{extra}]' if extra else package)}"
    # pip would look for the other packages of a checkout in the registry: the missing ones go along.
    folders = [*_missing_below(checkout, folder), folder]
    names = [_typed(checkout, each) for each in folders]
    names[-1] += f"[{extra}]" if extra else ""
    return f"pip install {' '.join(map(shlex.quote, names))}"


def _folder(checkout: Path, package: str) -> str | None:
    for folder in (_FOLDERS.get(package, package), f"plugins/{package}"):
        if (checkout / folder / "pyproject.toml").is_file():
            return folder
    return None


def _missing_below(checkout: Path, folder: str) -> list[str]:
    """Return the folders of packages of the checkout that a package requires and that are not installed."""
    project = (checkout / folder / "pyproject.toml").read_text("utf-8")
    required = re.search(r"^dependencies = \[(.*?)\]$", project, re.MULTILINE | re.DOTALL)
    missing: dict[str, None] = {}
    for package in re.findall(r'"(flexchat-[a-z]+)', required[1] if required is not None else ""):
        below = None if is_installed(package) else _folder(checkout, package)
        if below is not None:
            missing |= dict.fromkeys([*_missing_below(checkout, below), below])
    return [*missing]


def is_installed(package: str) -> bool:
    """Return whether a package is installed."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def _typed(checkout: Path, folder: str) -> str:
    """Return the path of a folder of the checkout, relative to the working directory where that is possible."""
    try:
        here = Path.cwd()
    except OSError:  # it no longer exists
        here = None
    if here is not None and here.resolve() == checkout.resolve():
        return "." if folder == "." else f"./{folder}"
    return str(checkout / folder)


def _checkout() -> Path | None:
    """Return the checkout that this code runs from, or was installed from; None if there is none."""
    for core in (Path(__file__).parents[2], _installed_from()):
        # The core's own folder distinguishes a checkout from a folder that merely has such a file.
        if core is not None and core.name == "core" and (core / "pyproject.toml").is_file():
            return core.parent
    return None


def _installed_from() -> Path | None:
    """Return the folder that the core was installed from, as pip noted it (PEP 610)."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname  # loads http and OpenSSL: only for a hint

    try:
        url = urlsplit(json.loads(distribution("flexchat-core").read_text("direct_url.json") or "{}").get("url", ""))
    except (PackageNotFoundError, OSError, ValueError, AttributeError):
        return None
    return Path(url2pathname(url.path)) if url.scheme == "file" else None
