"""flexchat new: writes a working plugin package that keeps the laws, as a starting point for your own."""

from __future__ import annotations

import importlib.resources
import importlib.util
import keyword
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click
from flexchat import __version__
from flexchat.host import did_you_mean
from flexchat_cli import FILE_NAME, CommandContext, UsageError, argument, command
from flexchat_sdk import package_data

if TYPE_CHECKING:
    from flexchat.host import PluginHost

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MAX_NAME_CHARS = 40


@attrs.frozen(kw_only=True)
class Kind:
    """A kind of plugin that new can write.

    Attributes:
        summary: What it is, for the help.
        description: Of the generated package.
        registers: What it registers, by kind: whether it is named after its module, not after the package.
    """

    summary: str
    description: str
    registers: Mapping[str, bool] = attrs.field(factory=dict)


KINDS: Mapping[str, Kind] = {
    name: Kind(**row) for name, row in package_data("flexchat_testing", "templates/kinds.toml").items()
}
_KINDS = "; ".join(f"{name}: {kind.summary}" for name, kind in KINDS.items())


def _complete_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in KINDS if name.startswith(incomplete)]


@command
@argument("kind", metavar="KIND", shell_complete=_complete_kind, help=_KINDS)
@argument("name", metavar="NAME", help="name of the package and of what it registers: acme-weather")
@click.option(
    "--dir", "place", metavar="DIR", type=FILE_NAME, default=".", help="where its folder is made (default: here)"
)
def new(context: CommandContext, kind: str, name: str, place: str) -> None:
    """Write a plugin package to start from."""
    if kind not in KINDS:
        raise UsageError(f"new knows no '{kind}'{did_you_mean(kind, KINDS)}; there are: {', '.join(KINDS)}")
    _check_name(name)
    _check_free(name, KINDS[kind], context.installed_plugins())
    if kind == "command" and name in _commands():
        raise UsageError(f"a command called '{name}' is installed already: put your own name before it, 'acme-{name}'")
    folder = Path(place) / name
    files = write(folder, files_of(kind, name))
    _report(folder, files, kind, context)


def files_of(kind: str, name: str) -> dict[str, str]:
    """Return a package's files by their path in its folder."""
    module = name.replace("-", "_")
    words = {
        "{{name}}": name,
        "{{module}}": module,
        "{{Class}}": "".join(part.capitalize() for part in name.split("-")),
        "{{VARIABLE}}": module.upper(),
        "{{description}}": KINDS[kind].description,
        "{{least}}": _minor(0),
        "{{next}}": _minor(1),
    }
    root = importlib.resources.files("flexchat_testing").joinpath("templates", kind)
    files = {}
    for path, text in _templates(root, ""):
        path = path.removesuffix(".txt").replace("MODULE", module)
        path = ".gitignore" if path == "gitignore" else path
        for placeholder, word in words.items():
            text = text.replace(placeholder, word)
        files[path] = text
    return dict(sorted(files.items()))


def write(folder: Path, files: Mapping[str, str]) -> list[Path]:
    """Write files into a folder that must not exist or be empty.

    Raises:
        UsageError: Something already exists there, or the folder cannot be written.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} exists already and is left as it is: choose another name, or another --dir")
        for path, text in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}") from None
    return [folder / path for path in files]


def _templates(folder: Traversable, above: str) -> Iterator[tuple[str, str]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _templates(item, f"{above}{item.name}/")
        elif item.name.endswith(".txt"):
            yield above + item.name, item.read_text("utf-8")


def _check_name(name: str) -> None:
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_CHARS:
        near = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()).strip("-0123456789")
        hint = f" (did you mean '{near[:_MAX_NAME_CHARS]}'?)" if _NAME.fullmatch(near[:_MAX_NAME_CHARS]) else ""
        raise UsageError(
            f"'{name[:80]}' cannot name a package{hint}: at most {_MAX_NAME_CHARS} of a-z 0-9 -, first a letter"
        )
    if keyword.iskeyword(module) or keyword.issoftkeyword(module) or module in sys.stdlib_module_names:
        raise UsageError(f"'{name}' is a word of Python's own: try '{name}-tool', or put your own name before it")
    if module not in sys.modules and importlib.util.find_spec(module) is None:
        return
    raise UsageError(f"a module called {module} is installed already: put your own name before it, 'acme-{name}'")


def _check_free(name: str, kind: Kind, host: PluginHost) -> None:
    for records_of, is_word in kind.registers.items():
        records = getattr(host, records_of)
        own = name.replace("-", "_") if is_word else name
        if own in records.by_name or ("builtin", own) in records.by_name:
            article = "an" if records.kind.startswith("i") else "a"
            what = f"{article} {records.kind} called '{own}'"
            raise UsageError(f"{what} is installed already: put your own name before it, 'acme-{name}'")


def _commands() -> list[str]:
    """Return the first words of all commands, ours and those of other packages."""
    root = click.get_current_context().find_root()
    return root.command.list_commands(root) if isinstance(root.command, click.Group) else []


def _minor(further: int) -> str:
    major, minor = __version__.split(".")[:2]
    return f"{major}.{int(minor) + further}"


def _report(folder: Path, files: list[Path], kind: str, context: CommandContext) -> None:
    terminal = context.terminal
    if context.json:
        terminal.json({"folder": str(folder), "kind": kind, "files": [str(path) for path in files]})
        return
    place = os.path.join(os.curdir, folder)  # pip takes a bare name for a package in its index
    terminal.out(f"wrote {folder} ({len(files)} files)", "bold")
    terminal.out("next:")
    terminal.out(f'  pip install -e "{place}[test]"')
    terminal.out(f"  pytest {_quoted(str(folder))}")
    terminal.out(f"  flexchat plugins verify {folder.name}")


def _quoted(path: str) -> str:
    return f'"{path}"' if " " in path else path
