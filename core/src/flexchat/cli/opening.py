"""Opens what a command works with, from its options: the configuration's file, the plugins, the chat."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..app import FlexChat
from ..assembly import blocked_by, installed_plugins, preferred_by
from ..config.finding import find_config
from ..errors import did_you_mean
from ..files import working_folder
from ..plugin.host import PluginHost
from .terminal import Terminal
from .usage import UsageError
from .zero_config import without_model, zero_config

if TYPE_CHECKING:
    from ..config.reading import ReadConfig


def config_file(args: argparse.Namespace) -> Path | None:
    """Return the configuration's file: --config, or FLEXCHAT_CONFIG, or one here; None if there is none.

    Also None with --demo, if the command has that option.
    """
    if getattr(args, "demo", False):
        return None
    return find_config(args.config)


def the_config(args: argparse.Namespace) -> ReadConfig | None:
    """Return the configuration; None if there is none. A command reads it once: args cache it.

    Raises:
        ConfigError: The file cannot be read at all.
    """
    file = config_file(args)
    if file is None:
        return None
    read: ReadConfig | None = getattr(args, "read", None)
    if read is None or read.path != file:
        from ..config.reading import read_config  # imports cattrs: not every command needs it

        args.read = read = read_config(file)
    return read


def load_plugins(args: argparse.Namespace, config: ReadConfig | None = None) -> PluginHost:
    """Return the installed plugins without those that the configuration or --no-plugin leave out.

    Raises:
        UsageError: --no-plugin names a plugin that is not installed.
    """
    blocked, preferred = ({}, ()) if config is None else (blocked_by(config), preferred_by(config))
    host = installed_plugins({**blocked, **dict.fromkeys(args.no_plugin, "--no-plugin")}, preferred)
    known = [report.name for report in host.reports]
    for name in args.no_plugin:
        if name not in known:
            installed = ", ".join(known) or "none"
            raise UsageError(f"--no-plugin {name}: no such plugin{did_you_mean(name, known)} (installed: {installed})")
    return host


def prepare(args: argparse.Namespace, config: ReadConfig | None = None) -> PluginHost:
    """Return the plugins for a command that works with them; report broken ones, and extend the module path.

    The configuration's folder, or the working folder, comes last on the module path: a configuration's Python functions
    may be next to it, and hide nothing that is installed. It is added after the plugins are loaded, so that nothing in
    the current folder can pose as a plugin.
    """
    host = load_plugins(args, config)
    broken = [report.name for report in host.reports if report.status == "failed"]
    if broken:
        count = "1 plugin is" if len(broken) == 1 else f"{len(broken)} plugins are"
        args.terminal.say(f"note: {count} left out ({', '.join(broken)}): flexchat plugins says why", "dim")
    file = config.path if config else None
    folder = os.path.dirname(os.path.realpath(file)) if file else str(working_folder())
    if folder not in sys.path:
        sys.path.append(folder)
    return host


def open_chat(args: argparse.Namespace) -> FlexChat:
    """Return the configured chat or, without a configuration, the rehearsal model with all ready-made tools.

    Raises:
        ConfigError: Everything that is wrong with the configuration.
        UsageError: There is no configuration, and no rehearsal model.
    """
    source, host = config_source(args)
    return FlexChat.from_config(source, plugins=host)


def config_source(args: argparse.Namespace) -> tuple[ReadConfig | dict[str, Any], PluginHost]:
    """Return what the chat is made from: the configuration, or tables if there is none; and the plugins.

    Raises:
        ConfigError: The file cannot be read at all.
        UsageError: There is no configuration, and no rehearsal model.
    """
    config = the_config(args)
    host = prepare(args, config)
    return config or zero_config(host), host


def open_tools(args: argparse.Namespace) -> tuple[FlexChat, PluginHost]:
    """Return the configured chat for its tools, and the plugins; without a configuration no model is needed.

    Raises:
        ConfigError: Everything that is wrong with the configuration.
    """
    config = the_config(args)
    host = prepare(args, config)
    return FlexChat.from_config(config, plugins=host) if config else without_model(host), host


def add_demo_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option for using the rehearsal model."""
    parser.add_argument(
        "--demo", action="store_true", help="let the rehearsal model answer, whatever is configured: no key, no network"
    )


def require_config(args: argparse.Namespace) -> None:
    """Make sure a program does not mistake the rehearsal model's answers for a model's: nobody reads the notice.

    Raises:
        UsageError: There is no configuration, no --demo, and nobody at a terminal; or both a configuration and --demo.
    """
    if args.demo and args.config:
        raise UsageError("--demo works without a configuration, and --config names one: use only one of them")
    if not args.demo and not args.terminal.is_read_by_a_person() and config_file(args) is None:
        raise UsageError(
            "no config found: flexchat init openai (or ollama, gemini, anthropic, local) writes one; "
            "--demo lets the rehearsal model answer, which understands nothing"
        )


def introduce(chat: FlexChat, args: argparse.Namespace) -> None:
    """Report on standard error what an answer must not hide: that no model is behind it, that tools were left out."""
    terminal: Terminal = args.terminal
    file = config_file(args)
    if getattr(args, "demo", False):
        terminal.say(f"--demo: {_REHEARSED}", "dim")
    elif file is None:
        terminal.say(f"no config found: {_REHEARSED}; flexchat init openai connects a real one", "dim")
    elif chat.notes:
        count = "1 note" if len(chat.notes) == 1 else f"{len(chat.notes)} notes"
        terminal.say(f"{file}: {count}; flexchat check shows them", "dim")


_REHEARSED = "the rehearsal model answers (it matches words and understands nothing)"
