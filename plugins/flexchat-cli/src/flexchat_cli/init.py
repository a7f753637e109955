"""flexchat init and completion: a first configuration, and the script that completes command lines in a shell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import attrs
import click
from flexchat.errors import did_you_mean
from flexchat.installing import how_to_install
from flexchat.plugin.packages import package_with

from .context import CommandContext, UsageError
from .main import COMPLETE_VARIABLE, CommandGroup
from .parameters import argument

_TOOLS = ("calculator", "get_current_datetime")
_SET = "set" if os.name == "nt" else "export"
_KEPT = """
# [conversations]                       # keep every turn, in your data folder; flexchat ask -c continues the last one

# [stores.documents]              # passages of your files: flexchat rag add FOLDER fills the store
# provider = "sqlite"                   # and {{rag_context}} in the prompt above shows the model what is found
""".splitlines()
_KEPT_IN_YAML = """
# conversations: {}                     # keep every turn, in your data folder; flexchat ask -c continues the last one

# stores:                               # passages of your files: flexchat rag add FOLDER fills the store
#   documents: {provider: sqlite}       # and {{rag_context}} in the prompt above shows the model what is found
""".splitlines()
_TRY = 'flexchat ask "What is 17% of 230?"'


@attrs.frozen(kw_only=True)
class Starter:
    """A kind of first configuration.

    Attributes:
        summary: What it is for, for the help.
        provider: The kind of service it uses.
        settings, model: A line and a comment each, for its llms table and for its rule.
        patience: Further lines of its llms table and a table of limits, for a slow model.
        first: What to do before the first question, one line each.
    """

    summary: str
    provider: str
    settings: tuple[str, str]
    model: tuple[str, str]
    first: tuple[str, ...] = ()
    patience: tuple[tuple[str, str], ...] = ()


_PATIENCE = (
    ("timeout_s = 900", "for a whole answer: a machine without a graphics card writes a few words a second"),
    ("first_byte_timeout_s = 600", "it reads the whole prompt before its first word, and loads the model before that"),
    ("idle_timeout_s = 120", ""),
)


def _hosted(service: str, provider: str, model: str) -> Starter:
    variable = f"{provider.upper()}_API_KEY"
    return Starter(
        summary=f"{service}, with the key in {variable}",
        provider=provider,
        settings=('api_key = "${NAME}"'.replace("NAME", variable), "taken from the environment"),
        model=(f'model = "{model}"', "flexchat models lists them"),
        first=(f"{_SET} {variable}=…",),
    )


STARTERS = {
    "openai": _hosted("OpenAI", "openai", "gpt-5.2"),
    "ollama": Starter(
        summary="Ollama, on this machine",
        provider="ollama",
        settings=("", 'base_url = "http://127.0.0.1:11434" is the default address'),
        model=('model = "qwen3:4b"', "flexchat models lists what you have, and what it can do"),
        first=("ollama pull qwen3:4b",),
        patience=_PATIENCE,
    ),
    "gemini": _hosted("Gemini", "gemini", "gemini-flash-latest"),
    "anthropic": _hosted("Claude", "anthropic", "claude-sonnet-5"),
    "local": Starter(
        summary="a local server with OpenAI's API (llama.cpp, vLLM, LM Studio)",
        provider="openai",
        settings=('base_url = "http://127.0.0.1:8080/v1"', "llama.cpp; vLLM has port 8000"),
        model=('model = "default"', "flexchat models lists what the server has"),
        first=("flexchat models          # then put one of them into the file",),
        patience=_PATIENCE,
    ),
    "rehearsal": Starter(
        summary="no model: rehearse your tools without a key or network",
        provider="rehearsal",
        settings=("", "it has no settings: it matches words against the tools and understands nothing"),
        model=('model = "rehearsal"', ""),
    ),
}


_KINDS = "; ".join(f"{name}: {starter.summary}" for name, starter in STARTERS.items())


def _complete_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in STARTERS if name.startswith(incomplete)]


@click.command
@argument("kind", default="openai", metavar="KIND", shell_complete=_complete_kind, help=f"{_KINDS} (default: openai)")
@click.option("--force", is_flag=True, help="overwrite the file if there is one")
@click.pass_obj
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
    format_config = text_of if file.suffix == ".toml" else yaml_of
    _write(file, format_config(starter, [name for name in _TOOLS if name in host.tools.by_name]), force=force)
    steps = [*starter.first]
    if file.suffix != ".toml" and find_spec("ruamel") is None:
        steps.insert(0, how_to_install("flexchat-core", "yaml"))
    if starter.provider not in host.providers.by_name:
        steps.insert(0, how_to_install(package_with("provider", starter.provider) or ""))
    _report(file, steps, kind, context)


def text_of(starter: Starter, tools: Sequence[str]) -> str:
    """Return a configuration.

    Args:
        tools: Ready-made tools to switch on.
    """
    lines = [
        "# A FlexChat configuration. flexchat check reads it, flexchat config schema describes every key.",
        "[llms.main]",
        f'provider = "{starter.provider}"',
        _commented(*starter.settings),
        *(_commented(*line) for line in starter.patience),
        "",
        _commented("[[responses]]", "the first rule that fits answers; one without match always fits"),
        'llm = "main"',
        _commented(*starter.model),
        'prompt = "You are a helpful assistant. Use the tools where they help."',
        "tools = { enabled = true }",
        "",
        "[tools]",
        _commented("max_iterations = 5", "answers that may ask for tools, per message"),
        _commented('at_limit = "answer"', "after that, one answer without tools"),
    ]
    if starter.patience:
        lines += ["", "[limits]", _commented("turn_timeout_ms = 1_800_000", "for a message with all of its tool calls")]
        lines += [_commented("phase_timeout_ms = 300_000", "for a topic, an intent, a search")]
    for name in tools:
        lines += ["", "[[tools.registry]]", f'name = "{name}"']
    return "\n".join([*lines, *_KEPT]) + "\n"


def yaml_of(starter: Starter, tools: Sequence[str]) -> str:
    """Return the same configuration in YAML."""
    lines = [
        "# A FlexChat configuration. flexchat check reads it, flexchat config schema describes every key.",
        "llms:",
        "  main:",
        f"    provider: {starter.provider}",
        *(_in_yaml("    ", *line) for line in (starter.settings, *starter.patience)),
        "",
        _commented("responses:", "the first rule that fits answers; one without match always fits"),
        "  - llm: main",
        _in_yaml("    ", *starter.model),
        "    prompt: You are a helpful assistant. Use the tools where they help.",
        "    tools: {enabled: true}",
        "",
        "tools:",
        _commented("  max_iterations: 5", "answers that may ask for tools, per message"),
        _commented("  at_limit: answer", "after that, one answer without tools"),
    ]
    if tools:
        lines += ["  registry:", *(f"    - name: {name}" for name in tools)]
    if starter.patience:
        lines += ["", "limits:", _commented("  turn_timeout_ms: 1800000", "for a message with all of its tool calls")]
        lines += [_commented("  phase_timeout_ms: 300000", "for a topic, an intent, a search")]
    return "\n".join([*lines, *_KEPT_IN_YAML]) + "\n"


def _in_yaml(indent: str, line: str, comment: str) -> str:
    """Return a line of a TOML table as one of YAML; a text stays in its quotes."""
    if not line:
        return f"{indent}# {comment.replace(' = ', ': ', 1)}"
    return _commented(indent + line.replace(" = ", ": ", 1), comment)


def _commented(line: str, comment: str) -> str:
    return (f"{line:40}# {comment}" if line else f"# {comment}") if comment else line


def _write(file: Path, text: str, *, force: bool) -> None:
    from flexchat.replacing import replacing

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


@click.command
@argument("shell", type=click.Choice(["bash", "zsh", "fish"]), help="the shell")
@click.pass_obj
def completion(context: CommandContext, shell: str) -> None:
    """Print a shell's completion script.

    Put this into the file your shell reads at its start: eval "$(flexchat completion bash)" into ~/.bashrc, the same
    with zsh into ~/.zshrc, and flexchat completion fish | source into ~/.config/fish/config.fish.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click has these shells"
    context.terminal.write(kind(CommandGroup(), {}, "flexchat", COMPLETE_VARIABLE).source() + "\n")
