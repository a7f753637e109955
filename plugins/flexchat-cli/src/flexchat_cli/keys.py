"""flexchat keys …: store, list, print and delete keys of services. No command takes a key as an argument."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click
from flexchat.config.keys import MAX_CHARS, is_key_name, key_for
from flexchat.config.wording import is_secret_name
from flexchat.domain.masking import MASK, Mask
from flexchat.errors import did_you_mean

from .context import CommandContext, UsageError
from .parameters import argument, command
from .standard_input import is_given
from .stored_keys import StoredKey, delete_key, store_key, stored_keys
from .terminal import Terminal

if TYPE_CHECKING:
    from flexchat.plugin.host import PluginHost

_PLACEHOLDER = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)")
_name = argument("name", metavar="NAME", help="a provider's name, as in openai, or a variable's: OPENAI_API_KEY")


@click.command("set", context_settings={"allow_extra_args": True})
@_name
@click.option("--file", "in_file", is_flag=True, help="store it in a file, not in the system's keyring")
@click.pass_context
def set_(ctx: click.Context, name: str, in_file: bool) -> None:
    """Store a key, entered at a prompt or read from standard input.

    It is never an argument: arguments stay in the shell's history, and other users can see them.
    """
    context: CommandContext = ctx.obj
    terminal = context.terminal
    if ctx.args:
        raise UsageError(
            "a key is never an argument, where the shell's history keeps it: leave it out, and you are asked for it; "
            "the one you have just typed should be replaced"
        )
    host = context.load_plugins()
    variable = _variable(name, host)
    stored, why = store_key(variable, _read(variable, terminal), in_file=in_file)
    if context.json:
        terminal.json({"name": variable, "source": stored.source})
        return
    if stored.source == "keyring":
        terminal.say(f"{variable} is stored in the system's keyring", "dim")
    else:
        terminal.say(f"{variable} is stored in {stored.file}, which only you can read ({why})", "dim")
    if variable not in _provider_variables(host):
        hint = did_you_mean(variable, _provider_variables(host))
        terminal.say(f'note: no provider reads {variable} by itself{hint}: write "${{{variable}}}" in a config', "dim")
    if os.environ.get(variable):
        terminal.say(f"note: the environment's {variable} comes first", "dim")


@command
def list_(context: CommandContext) -> None:
    """List the keys and where each comes from.

    That is the configuration, the environment, the system's keyring or a file. No key is shown.
    """
    host = context.load_plugins()
    data = [*_config_keys(context), *_variable_keys(context, host)]
    unused = [f" (and {', '.join(key['also'])}, not used)" if key["also"] else "" for key in data]
    rows = [(key["name"], MASK, key["source"] + note) for key, note in zip(data, unused, strict=True)]
    context.show_rows(data, ("name", "key", "from"), rows, "no key is known: flexchat keys set NAME stores one")


@command
@_name
def get(context: CommandContext, name: str) -> None:
    """Print a key, for another program.

    It is the environment's or, without one, the stored key.
    """
    variable = _variable(name, context.load_plugins(), beside=stored_keys())
    key = key_for([variable])
    if key is None:
        raise UsageError(f"no key is known as {variable}: flexchat keys set {name} stores one")
    if context.json:
        context.terminal.json({"name": variable, "key": key[1]})
    else:
        context.terminal.out(key[1])


@command
@_name
def delete(context: CommandContext, name: str) -> None:
    """Delete a stored key."""
    variable = _variable(name, context.load_plugins(), beside=stored_keys())
    key = delete_key(variable)
    if key is None:
        there = ", ".join(key.name for key in stored_keys()) or "none"
        raise UsageError(f"no key is stored as {variable} (stored: {there})")
    context.show({"name": variable, "source": key.source}, f"{variable} is deleted from the {key.source}")


def _read(variable: str, terminal: Terminal) -> str:
    """Return the key from standard input, or as typed.

    Raises:
        UsageError: There is neither a terminal nor anything on standard input.
    """
    if is_given():
        content = getattr(sys.stdin, "buffer", sys.stdin).read(MAX_CHARS + 2)
        return content if isinstance(content, str) else content.decode("utf-8", "replace")
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask at: give the key on standard input")
    with terminal.lend_stdout():
        typed: str = click.prompt(f"Key for {variable}", hide_input=True, err=True)
        return typed


def _variable(name: str, host: PluginHost, beside: list[StoredKey] | None = None) -> str:
    """Resolve the name of a provider or of a variable to the variable.

    Raises:
        UsageError: It is neither a provider with a key nor a variable's name. The text shows no more of it than a name
            may have: it may be a key typed in the wrong place.
    """
    from flexchat.llms.open import variables_of

    known = {kind.name: names for kind in host.providers.by_name.values() if (names := variables_of(kind))}
    if name in known:
        return known[name][0]
    stored = [key.name for key in beside or ()]
    variables = [variable for names in known.values() for variable in names]
    if is_key_name(name) and (is_secret_name(name) or name in stored):
        return name
    subject = f"'{Mask()(name)}' is" if len(name) <= 40 and name.isprintable() else "this is"
    hint = did_you_mean(name, [*known, *variables, *stored]) if len(name) <= 40 else ""
    raise UsageError(
        f"{subject} no provider with a key, nor the name of a variable for one, as ACME_API_KEY is{hint} "
        f"(providers: {', '.join(sorted(known)) or 'none'})"
    )


def _config_keys(context: CommandContext) -> Iterator[Mapping[str, Any]]:
    """Yield the keys written out in the configuration."""
    config = context.read_config()
    if config is None:
        return
    for place, table in config.tables("llms"):
        for key, value in table.items():
            value_in_file: Any = config.written.data
            try:
                for part in (*place, key):
                    value_in_file = value_in_file[part]
            except (LookupError, TypeError):  # of an included file
                value_in_file = None
            if isinstance(value, str) and value and is_secret_name(str(key)) and not _references(value_in_file):
                yield {"name": ".".join(map(str, (*place, key))), "source": "config", "also": []}


def _variable_keys(context: CommandContext, host: PluginHost) -> Iterator[Mapping[str, Any]]:
    """Yield the keys in variables: the usual ones, those of the configuration, and the stored ones."""
    stored = {key.name: key.source for key in stored_keys()}
    config = context.read_config()
    references = _references(config.written.data) if config is not None else []
    names = [*_provider_variables(host), *(name for name in references if is_secret_name(name)), *stored]
    for name in sorted(dict.fromkeys(names)):
        places = ["environment"] if os.environ.get(name, "").strip() else []
        places += [stored[name]] if name in stored else []
        if places:
            yield {"name": name, "source": places[0], "also": places[1:]}


def _provider_variables(host: PluginHost) -> list[str]:
    from flexchat.llms.open import variables_of

    return [name for kind in host.providers.by_name.values() for name in variables_of(kind)]


def _references(value: Any) -> list[str]:
    if isinstance(value, str):
        return _PLACEHOLDER.findall(value)
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [name for item in inside for name in _references(item)]
