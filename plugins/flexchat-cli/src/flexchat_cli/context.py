"""The context of a command: terminal, options of every command, exit statuses, and the chat that is opened."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from flexchat.errors import ConfigError, FlexChatError, did_you_mean
from flexchat.files import path_exists, working_folder

from .terminal import Terminal

if TYPE_CHECKING:
    from flexchat.app import FlexChat
    from flexchat.config.reading import ReadConfig
    from flexchat.plugin.host import PluginHost
    from flexchat.plugin.records import Records

log = logging.getLogger(__name__)

OK = 0
"""Exit status of a command that did its work."""
FAILED = 1
"""Exit status: the user's input was used, and something failed."""
UNUSABLE = 2
"""Exit status: the user's input cannot be used (names, options, the configuration)."""
PENDING = 3
"""Exit status: the turn has not ended: it is suspended until one of its questions has a reply, or has not begun."""
INTERRUPTED = 130
"""Exit status: the user pressed Ctrl-C."""
PIPE_CLOSED = 141
"""Exit status: the reader of the output has closed it."""


class UsageError(FlexChatError):
    """The command cannot run as typed; the text gives a command line that works."""

    exit_status = UNUSABLE


FILE_NAMES = ("flexchat.toml", "flexchat.yaml", "flexchat.yml", "flexchat.json")
"""Default names of a configuration; the first wins."""


def find_config(
    explicit: str | Path | None = None, environ: Mapping[str, str] | None = None, cwd: str | Path | None = None
) -> Path | None:
    """Return the configuration file to use: the named one, or FLEXCHAT_CONFIG, or one in the folder.

    A folder may be named instead of a file. Of several with a default name, the first is used, with a warning in the
    log. None if there is none; something that is not a file is returned, and reading it reports that.

    Raises:
        PathError: The working folder no longer exists.
    """
    folder = Path() if cwd is None else Path(cwd)
    name = explicit or (os.environ if environ is None else environ).get("FLEXCHAT_CONFIG")
    if name:
        path = folder / name
        if not os.path.isdir(path):
            return path
        folder = path
    if not folder.is_absolute():
        working_folder()
    candidates = [folder / name for name in FILE_NAMES if path_exists(folder / name)]
    if len(candidates) > 1:
        log.warning("using %s; ignoring %s next to it", candidates[0], candidates[1].name)
    if not candidates and name:
        return folder / FILE_NAMES[0]  # reading it will report that it does not exist
    return candidates[0] if candidates else None


def zero_config(host: PluginHost) -> dict[str, Any]:
    """Return a configuration that needs no key and no network.

    Raises:
        UsageError: No installed plugin offers the rehearsal model.
    """
    if "rehearsal" not in host.providers.by_name:
        raise UsageError(
            "the rehearsal model, which answers without a configuration, is not there: "
            f"{host.providers.missing('rehearsal')}; "
            "flexchat init openai (or ollama, gemini, anthropic, local) writes a configuration"
        )
    tools = _usable_tools(host)
    stores = {"documents": {"provider": "sqlite"}} if "sqlite" in host.document_stores.by_name else {}
    return {
        "stores": stores,
        "llms": {"rehearsal": {"provider": "rehearsal"}},
        "responses": [{"llm": "rehearsal", "model": "rehearsal", "tools": {"enabled": True}}],
        "tools": {"registry": [{"name": name} for name in tools], "at_limit": "answer"},
        **{name: table.demo(tools) for name, table in host.config_tables.by_name.items() if table.demo is not None},
    }


def without_model(host: PluginHost) -> FlexChat:
    """Return a chat that has the same tools but cannot answer.

    Raises:
        ConfigError: A gate is inactive.
    """
    from flexchat.app import FlexChat
    from flexchat.assembly import Parts, create_fetcher, require_gates
    from flexchat.calls.manager import ToolManager
    from flexchat.config.model import Config, ToolEntry, ToolsTable
    from flexchat.domain.masking import Mask
    from flexchat.llms.llm import Llms

    require_gates(host)
    table = ToolsTable(registry=tuple(ToolEntry(name=name) for name in _usable_tools(host)))
    config = Config(tools=table)
    fetcher = create_fetcher(host, config, Mask())
    tools = ToolManager.from_plugins(host, table, fetcher=fetcher)
    tools.load_tools()
    return FlexChat(Parts(config=config, llms=Llms(), tools=tools, fetcher=fetcher))


def _usable_tools(host: PluginHost) -> list[str]:
    from flexchat.tools.settings import tool_trouble

    # Internal tools search the configuration's document stores, and there are none.
    return [
        name
        for name, tool in host.tools.by_name.items()
        if tool.implementation.type != "internal" and tool_trouble(tool, host) is None
    ]


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

    def config_data(self) -> Mapping[str, Any]:
        """Return the tables of the configuration; none without one."""
        config = self.read_config()
        return config.document.data if config is not None else {}

    def load_plugins(self, config: ReadConfig | None = None) -> PluginHost:
        """Return the installed plugins without those that the configuration or --no-plugin leave out.

        Raises:
            UsageError: --no-plugin names a plugin that is not installed.
        """
        from flexchat.assembly import installed_plugins, plugin_choice

        blocked, preferred = ({}, ()) if config is None else plugin_choice(config)
        host = installed_plugins({**blocked, **dict.fromkeys(self.no_plugin, "--no-plugin")}, preferred)
        names = [report.name for report in host.reports]
        for name in self.no_plugin:
            if name not in names:
                hint = did_you_mean(name, names) or f" (installed: {', '.join(names) or 'none'})"
                raise UsageError(f"--no-plugin {name}: no such plugin{hint}")
        return host

    def installed_plugins(self, config: ReadConfig | None = None) -> PluginHost:
        """Return the plugins for a command that works with them; report broken ones, and extend the module path.

        The configuration's folder, or the working folder, comes last on the module path: a configuration's Python
        functions may be next to it, and hide nothing that is installed. It is added after the plugins are loaded, so
        that nothing in the current folder can pose as a plugin.
        """
        host = self.load_plugins(config)
        failures = [report.name for report in host.reports if report.status == "failed"]
        if failures:
            count = "1 plugin is" if len(failures) == 1 else f"{len(failures)} plugins are"
            self.terminal.say(f"note: {count} left out ({', '.join(failures)}): flexchat plugins says why", "dim")
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
            from .entry_points import installed_commands

            config = None
            with contextlib.suppress(ConfigError):
                config = self.read_config()
            blocked: set[str] = {*self.no_plugin}
            preferred: tuple[str, ...] = ()
            if config is not None:
                from flexchat.assembly import plugin_choice

                more, preferred = plugin_choice(config)
                blocked |= more.keys()
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

        config = self.read_config()
        host = self.installed_plugins(config)
        return config or zero_config(host), host

    def open_tools(self) -> tuple[FlexChat, PluginHost]:
        """Return the configured chat for its tools, and the plugins; without a configuration no model is needed.

        Raises:
            ConfigError: Everything that is wrong with the configuration.
        """
        from flexchat.app import FlexChat

        config = self.read_config()
        host = self.installed_plugins(config)
        return FlexChat.from_config(config, plugins=host) if config else without_model(host), host


_REHEARSED = "the rehearsal model answers (it matches words and understands nothing)"


def _use_demo(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.obj.demo = value


demo_option = click.option(
    "--demo",
    is_flag=True,
    expose_value=False,
    callback=_use_demo,
    help="let the rehearsal model answer instead of the configured one: no key, no network",
)
"""The option for using the rehearsal model; it sets the context's ``demo``."""


def require_config(context: CommandContext) -> None:
    """Refuse the rehearsal model without --demo in scripts, which would take its answers for a real model's.

    Raises:
        UsageError: There is neither a configuration, nor --demo, nor a terminal; or both a configuration and --demo.
    """
    if context.demo and context.config:
        raise UsageError("--demo works without a configuration, and --config names one: use only one of them")
    if not context.demo and not context.terminal.is_shown_on_terminal() and context.config_file() is None:
        raise UsageError(
            "no config found: flexchat init openai (or ollama, gemini, anthropic, local) writes one, "
            "-m PROVIDER/MODEL needs none; --demo lets the rehearsal model answer, which understands nothing"
        )


def report_notes(chat: FlexChat, context: CommandContext) -> None:
    """Report on standard error what an answer must not hide: that no model is behind it, that tools were left out."""
    file = context.config_file()
    if context.demo:
        context.terminal.say(f"--demo: {_REHEARSED}", "dim")
    elif file is None:
        text = f"no config found: {_REHEARSED}; flexchat init openai connects a real one"
        context.terminal.say(text, "dim")
    elif chat.notes:
        count = "1 note" if len(chat.notes) == 1 else f"{len(chat.notes)} notes"
        context.terminal.say(f"{file}: {count}; flexchat check shows them", "dim")


def user_name() -> str:
    """Return the name of the person who is logged in, for records."""
    import getpass  # few commands need it

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        return "the command line"
