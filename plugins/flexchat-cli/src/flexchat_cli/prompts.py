"""Named prompts, [prompts.NAME]: -t NAME, -p NAME VALUE, ask --save NAME, and flexchat prompts list and show."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click
from click.shell_completion import CompletionItem
from flexchat.config.document import parse_document
from flexchat.config.model import PromptEntry
from flexchat.config.own_variables import OWN_NAMES, variable_problem
from flexchat.domain.copies import copied
from flexchat.errors import ConfigError, did_you_mean
from flexchat.files import replacing
from flexchat.turn.template import fill_in, variables_of

from .context import CommandContext, UsageError
from .parameters import TEXT, argument, command
from .terminal import one_line

MESSAGE = "message"
"""The variable for the typed or piped message."""


def named_prompts(context: CommandContext) -> Mapping[str, PromptEntry]:
    """Return the configuration's prompts by name, even if the rest of it is unusable: the model may be named by -m.

    Raises:
        ConfigError: The configuration cannot be read, or its prompts cannot be used.
    """
    from flexchat.config.structure import structure  # imports cattrs: not every command needs it

    config = context.read_config()
    if config is None or "prompts" not in context.config_data():
        return {}
    kind: type[Mapping[str, PromptEntry]] = Mapping[str, PromptEntry]  # type: ignore[type-abstract]
    prompts, issues = structure(config.document.data["prompts"], kind)
    if prompts is None:
        at = [None if issue.at is None else ("prompts", *issue.at) for issue in issues]
        problem = config.document.problem
        raise ConfigError([problem(("prompts", *i.path), i.text, at) for i, at in zip(issues, at, strict=True)])
    return prompts


def named_prompt(context: CommandContext, name: str) -> PromptEntry:
    """Return the prompt of that name.

    Raises:
        ConfigError: The configuration cannot be read, or its prompts cannot be used.
        UsageError: There is none.
    """
    prompts = named_prompts(context)
    if name in prompts:
        return prompts[name]
    file = context.config_file()
    where = f"{file} has: {', '.join(prompts) or 'none'}" if file is not None else "there is no configuration"
    raise UsageError(f"no prompt is called '{name}'{did_you_mean(name, prompts)}; {where} ([prompts.NAME])")


def with_message(name: str, prompt: PromptEntry, message: str, variables: Mapping[str, Any], system: str = "") -> str:
    """Return the text that is sent: the prompt with its variables and the message, which otherwise follows it.

    Args:
        system: The system prompt, filled in later; its variables must be there as well.

    Raises:
        UsageError: A variable has no value, or the message is missing.
    """
    values = {**prompt.variables, **variables, MESSAGE: message}
    names = variables_of(prompt.prompt)
    missing = [variable for variable in _variables(prompt.prompt, system) if variable not in values]
    if missing:
        options = " ".join(f"--var {variable}=…" for variable in missing)
        raise UsageError(f"the prompt '{name}' needs {options}")
    if MESSAGE in names and not message:
        raise UsageError(f"the prompt '{name}' needs a message: words, or standard input")
    filled = fill_in(prompt.prompt, values)
    return filled if MESSAGE in names else "\n\n".join(part for part in (filled, message) if part)


def _variables(prompt: str, system: str) -> tuple[str, ...]:
    """List the variables in both texts, except those that FlexChat itself fills into a system prompt."""
    own = (name for name in variables_of(system) if name not in OWN_NAMES)
    return tuple(dict.fromkeys((*variables_of(prompt), *own)))


def complete_prompt(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the prompts whose names begin like this, for a shell."""
    prompts = named_prompts(ctx.find_root().obj)
    return [CompletionItem(name, help=_about(one)) for name, one in prompts.items() if name.startswith(incomplete)]


@command
def list_(context: CommandContext) -> None:
    """List the named prompts of the configuration."""
    prompts = named_prompts(context)
    data = [_as_data(name, prompt) for name, prompt in prompts.items()]
    rows = [(name, _about(prompt)) for name, prompt in prompts.items()]
    empty = "there are no named prompts: [prompts.NAME] in a configuration makes one"
    context.show_rows(data, ("name", "about"), rows, empty)


@command
@argument("name", shell_complete=complete_prompt, help="its name")
def show(context: CommandContext, name: str) -> None:
    """Print a named prompt."""
    prompt = named_prompt(context, name)
    if context.json:
        context.terminal.json(_as_data(name, prompt))
        return
    for key, value in _as_data(name, prompt).items():
        text = ", ".join(value) if isinstance(value, (list, tuple)) else value
        text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
        lines = text.split("\n")
        context.terminal.out(f"{key}: {text}" if len(lines) == 1 else "\n  ".join((f"{key}:", *lines)))


def _about(prompt: PromptEntry) -> str:
    return one_line((prompt.description or prompt.prompt or prompt.system or "").partition("\n")[0], 100)


def _as_data(name: str, prompt: PromptEntry) -> dict[str, Any]:
    """Return the fields that are set, and the required variables."""
    fields = attrs.asdict(prompt, filter=lambda field, value: bool(value) and field.name != "prompt_file")
    variables = _variables(prompt.prompt, prompt.system or "")
    needed = [one for one in variables if one != MESSAGE and one not in prompt.variables]
    return {"name": name, **fields, **({"needs": needed} if needed else {})}


def read_variables(words: Sequence[str]) -> dict[str, Any]:
    """Return the variables by name: a list or a table if the value is one in JSON, otherwise the text as typed.

    Raises:
        UsageError: One has no name or value, is given twice, or has a name no prompt can show.
    """
    variables: dict[str, Any] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or not name:
            raise UsageError(f"--var {word}: NAME=VALUE is expected")
        if name in variables:
            raise UsageError(f'--var {name} is given twice; a list is one JSON value: {name}=\'["a", "b"]\'')
        variables[name] = _value(text)
        problem = variable_problem(name, variables[name])
        if problem:
            raise UsageError(f"--var: {problem}")
    return variables


def _value(text: str) -> Any:
    with contextlib.suppress(ValueError, RecursionError):  # of a text that starts with a bracket
        return json.loads(text) if text.lstrip().startswith(("{", "[")) else text
    return text


variables_option = click.option(
    "--var",
    "-p",
    "--param",
    "variables",
    metavar="NAME=VALUE",
    type=TEXT,
    multiple=True,
    callback=lambda ctx, param, words: read_variables(words),
    help="what prompts show as {{NAME}}: a text, or a list or table as JSON; also -p NAME VALUE; repeatable",
)
"""The option that sets prompt variables; the command gets them by name, as ``variables``."""


_BARE = re.compile(r"[A-Za-z0-9_-]+")


def save_prompt(context: CommandContext, name: str, table: Mapping[str, Any]) -> Path:
    """Add a named prompt to the configuration, or to a new flexchat.toml; return the file.

    Raises:
        UsageError: There is one of that name, or the file cannot be changed in place.
        ConfigError: The file cannot be read.
    """
    from flexchat_sdk import changed_config, toml_table

    if not _BARE.fullmatch(name):
        raise UsageError(f"--save {name}: a name has letters, digits, _ and -")
    file = context.config_file()
    text = "" if file is None else file.read_text(encoding="utf-8-sig")
    file = file or Path("flexchat.toml")
    text = text or ("{}" if file.suffix == ".json" else "")
    prompts = parse_document(text, file).data.get("prompts", {})
    if not isinstance(prompts, dict) or name in prompts:
        raise UsageError(f"--save {name}: {file} has a prompt of that name; change it there, or choose another name")

    def add(data: Any) -> None:
        data.setdefault("prompts", {})[name] = copied(table)

    try:
        changed = changed_config(text, file, add, toml_table(f"[prompts.{name}]", table))
    except (ConfigError, ImportError, TypeError, ValueError):
        raise UsageError(f"--save {name}: {file} cannot be changed in place; add [prompts.{name}] by hand") from None
    with replacing(file) as output:
        output.write(changed)
    return file
