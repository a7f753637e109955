"""flexchat init and completion: a first configuration, and the script that completes command lines in a shell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import attrs
import click
from flexchat.errors import did_you_mean
from flexchat.installing import how_to_install, package_with
from flexchat_sdk import package_data

from .context import CommandContext, UsageError
from .main import COMPLETE_VARIABLE, CommandGroup
from .parameters import argument, command, completes

_TOOLS = ("calculator", "get_current_datetime")
_TRY = 'flexchat ask "What is 17% of 230?"'
_FOR_SLOW = "slow:"


@attrs.frozen(kw_only=True)
class Starter:
    """A kind of first configuration.

    Attributes:
        summary: What it is for, for the help.
        provider: The kind of service it uses.
        settings, model: A line and a comment each, for its llms table and for its rule.
        first: What to do before the first question, one line each.
        is_slow: Whether a model needs patience: longer timeouts and limits.
    """

    summary: str
    provider: str
    settings: Sequence[str]
    model: Sequence[str]
    first: Sequence[str] = ()
    is_slow: bool = False


STARTERS = {name: Starter(**row) for name, row in package_data("flexchat_cli", "starters/kinds.toml").items()}
_complete_kind = completes(lambda context: STARTERS)
_KINDS = "; ".join(f"{name}: {starter.summary}" for name, starter in STARTERS.items())


@command
@argument("kind", default="openai", metavar="KIND", shell_complete=_complete_kind, help=f"{_KINDS} (default: openai)")
@click.option("--force", is_flag=True, help="overwrite the file if there is one")
def init(context: CommandContext, kind: str, force: bool) -> None:
    """Write a first configuration.

    It is written to flexchat.toml, or to the file named by --config: TOML, or YAML if its name ends in .yaml.
    """
    starter = STARTERS.get(kind)
    if starter is None:
        raise UsageError(f"init does not know '{kind}'{did_you_mean(kind, STARTERS)}; there are: {', '.join(STARTERS)}")
    file = Path(context.config or "flexchat.toml")
    if os.path.isdir(file):
        file /= "flexchat.toml"
    if file.suffix not in (".toml", ".yaml", ".yml"):
        raise UsageError(f"init writes TOML or YAML: the file name must end in .toml or .yaml, not {file.name}")
    host = context.installed_plugins()
    tools = [name for name in _TOOLS if name in host.tools.by_name]
    _write(file, config_text(starter, tools, is_toml=file.suffix == ".toml"), force=force)
    steps = [step.replace("export ", "set ") if os.name == "nt" else step for step in starter.first]
    if file.suffix != ".toml" and find_spec("ruamel") is None:
        steps.insert(0, how_to_install("flexchat-core", "yaml"))
    if starter.provider not in host.providers.by_name:
        steps.insert(0, how_to_install(package_with("provider", starter.provider) or ""))
    _report(file, steps, kind, context)


def config_text(starter: Starter, tools: Sequence[str], *, is_toml: bool) -> str:
    """Return a configuration in TOML or YAML, in which these ready-made tools are switched on."""
    template = files("flexchat_cli").joinpath("starters", f"config.{'toml' if is_toml else 'yaml'}.txt")
    lines = [
        line.removeprefix(_FOR_SLOW)
        for line in template.read_text("utf-8").split("\n")
        if starter.is_slow or not line.startswith(_FOR_SLOW)
    ]
    if is_toml:
        registry = "".join(f'\n[[tools.registry]]\nname = "{name}"\n' for name in tools)
    else:
        registry = "\n".join(["\n  registry:", *(f"    - name: {name}" for name in tools)]) if tools else ""
    text = "\n".join(lines).replace("{{provider}}", starter.provider).replace("{{tools}}", registry)
    for name, (line, comment) in (("{{settings}}", starter.settings), ("{{model}}", starter.model)):
        if not is_toml:
            line, comment = line.replace(" = ", ": ", 1), comment.replace(" = ", ": ", 1)
        line = line if is_toml else f"    {line}"
        separator = " " * max(40 - len(line), 0) if line.strip() else ""
        text = text.replace(name, f"{line}{separator}# {comment}" if comment else line)
    return text


def _write(file: Path, text: str, *, force: bool) -> None:
    from flexchat.files import replacing

    try:
        with replacing(file) if force else file.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise UsageError(f"{file} already exists and was not changed; --force overwrites it") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from None


def _report(file: Path, steps: Sequence[str], kind: str, context: CommandContext) -> None:
    terminal = context.terminal
    if context.json:
        terminal.json({"file": str(file), "kind": kind})
        return
    option = f" --config {context.config}" if context.config else ""
    terminal.out(f"wrote {file}", "bold")
    terminal.out("next:")
    for step in (*steps, f"flexchat check{option}", _TRY.replace("ask", f"ask{option}")):
        terminal.out(f"  {step}")


@command
@argument("shell", type=click.Choice(["bash", "zsh", "fish"]), help="the shell")
def completion(context: CommandContext, shell: str) -> None:
    """Print a shell's completion script.

    Put this into the file your shell reads at its start: eval "$(flexchat completion bash)" into ~/.bashrc, the same
    with zsh into ~/.zshrc, and flexchat completion fish | source into ~/.config/fish/config.fish.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click has these shells"
    context.terminal.write(kind(CommandGroup(), {}, "flexchat", COMPLETE_VARIABLE).source() + "\n")
