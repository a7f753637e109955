"""The context of a command: the terminal, the options of every command, and the configuration and chat they open."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from flexchat.errors import ConfigError, did_you_mean

from .terminal import Terminal
from .usage import UsageError

if TYPE_CHECKING:
    from flexchat.app import FlexChat
    from flexchat.config.reading import ReadConfig
    from flexchat.plugin.host import PluginHost
    from flexchat.plugin.records import Records


@attrs.define(kw_only=True, eq=False)
class CommandContext:
    """The first argument of every command, with ``@click.pass_obj``.

    Attributes:
        terminal: The only way to standard output.
        config: The file given with --config; None: FLEXCHAT_CONFIG, or a file in the working folder.
        json: Whether to print JSON (--json).
        no_plugin: Names of plugins to leave out (--no-plugin).
        demo: Whether to use the rehearsal model instead of the configured one; commands with such an option set it.
    """

    terminal: Terminal
    config: str | None = None
    json: bool = False
    no_plugin: list[str] = attrs.field(factory=list)
    demo: bool = False
    _read: ReadConfig | None = attrs.field(default=None, init=False)
    _commands: Records | None = attrs.field(default=None, init=False)

    def show(self, data: Any, text: str) -> None:
        """Report what was done: the data as JSON, or the text on standard error."""
        if self.json:
            self.terminal.json(data)
        else:
            self.terminal.say(text, "dim")

    def show_rows(self, data: Any, head: Sequence[str], rows: Sequence[Sequence[str]], empty: str) -> None:
        """Print a list: the data as JSON, or the rows as a table, with a note if there are none."""
        if rows and not self.json:
            self.terminal.table(head, rows)
        else:
            self.show(data, empty)

    def config_file(self) -> Path | None:
        """Return the configuration's file; None if there is none, or if the rehearsal model is to answer."""
        from flexchat.config.finding import find_config

        return None if self.demo else find_config(self.config)

    def read_config(self) -> ReadConfig | None:
        """Return the configuration, read once; None if there is none.

        Raises:
            ConfigError: The file cannot be read at all.
        """
        file = self.config_file()
        if file is None:
            return None
        if self._read is None or self._read.path != file:
            from flexchat.config.reading import read_config  # imports cattrs: not every command needs it

            self._read = read_config(file)
        return self._read

    def load_plugins(self, config: ReadConfig | None = None) -> PluginHost:
        """Return the installed plugins without those that the configuration or --no-plugin leave out.

        Raises:
            UsageError: --no-plugin names a plugin that is not installed.
        """
        from flexchat.assembly import blocked_by, installed_plugins, preferred_by

        blocked, preferred = ({}, ()) if config is None else (blocked_by(config), preferred_by(config))
        host = installed_plugins({**blocked, **dict.fromkeys(self.no_plugin, "--no-plugin")}, preferred)
        known = [report.name for report in host.reports]
        for name in self.no_plugin:
            if name not in known:
                hint = did_you_mean(name, known) or f" (installed: {', '.join(known) or 'none'})"
                raise UsageError(f"--no-plugin {name}: no such plugin{hint}")
        return host

    def installed_plugins(self, config: ReadConfig | None = None) -> PluginHost:
        """Return the plugins for a command that works with them; report broken ones, and extend the module path.

        The configuration's folder, or the working folder, comes last on the module path: a configuration's Python
        functions may be next to it, and hide nothing that is installed. It is added after the plugins are loaded, so
        that nothing in the current folder can pose as a plugin.
        """
        from flexchat.files import working_folder

        host = self.load_plugins(config)
        broken = [report.name for report in host.reports if report.status == "failed"]
        if broken:
            count = "1 plugin is" if len(broken) == 1 else f"{len(broken)} plugins are"
            self.terminal.say(f"note: {count} left out ({', '.join(broken)}): flexchat plugins says why", "dim")
        file = config.path if config else None
        folder = os.path.dirname(os.path.realpath(file)) if file else str(working_folder())
        if folder not in sys.path:
            sys.path.append(folder)
        return host

    def installed_commands(self) -> Records:
        """Return the entry points of plugins' commands, without those that the configuration or --no-plugin leave out.

        An unreadable configuration does not hide them. No plugin is imported.
        """
        if self._commands is None:
            from flexchat.plugin.commands import installed_commands

            config = None
            with contextlib.suppress(ConfigError):
                config = self.read_config()
            blocked: set[str] = {*self.no_plugin}
            preferred: tuple[str, ...] = ()
            if config is not None:
                from flexchat.assembly import blocked_by, preferred_by

                blocked |= blocked_by(config).keys()
                preferred = preferred_by(config)
            self._commands = installed_commands(blocked, preferred)
        return self._commands

    def open_chat(self) -> FlexChat:
        """Return the configured chat or, without a configuration, the rehearsal model with all ready-made tools.

        Raises:
            ConfigError: Everything that is wrong with the configuration.
            UsageError: There is no configuration, and no rehearsal model.
        """
        from flexchat.app import FlexChat

        source, host = self.config_source()
        return FlexChat.from_config(source, plugins=host)

    def config_source(self) -> tuple[ReadConfig | dict[str, Any], PluginHost]:
        """Return the source of the chat and its plugins: the configuration, or tables if there is none.

        Raises:
            ConfigError: The file cannot be read at all.
            UsageError: There is no configuration, and no rehearsal model.
        """
        from .zero_config import zero_config

        config = self.read_config()
        host = self.installed_plugins(config)
        return config or zero_config(host), host

    def open_tools(self) -> tuple[FlexChat, PluginHost]:
        """Return the configured chat for its tools, and the plugins; without a configuration no model is needed.

        Raises:
            ConfigError: Everything that is wrong with the configuration.
        """
        from flexchat.app import FlexChat

        from .zero_config import without_model

        config = self.read_config()
        host = self.installed_plugins(config)
        return FlexChat.from_config(config, plugins=host) if config else without_model(host), host
