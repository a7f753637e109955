"""The log of servers and workers: lines for turns and tool calls, as text or JSON, with ids on every record."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import click
from flexchat import ToolCallRecord, Turn, TurnInfo
from flexchat.errors import did_you_mean
from flexchat.host import current_turn, traceparent_here
from flexchat.plugin import AppInfo, hookimpl

from .context import UsageError
from .parameters import option_group
from .terminal import Handler, Terminal

LogFormat = Literal["text", "json"]

LEVELS = ("debug", "info", "warning", "error", "critical")
OURS = ("flexchat", "flexchat_cli", "flexchat_sdk", "flexchat_sqlite", "flexchat_web", "flexchat_queue")
MAX_PARAMS_CHARS = 4_096

current_request: contextvars.ContextVar[str] = contextvars.ContextVar("flexchat_request", default="")
"""Id of the HTTP request this code runs for; empty outside requests."""

turns, calls = logging.getLogger("flexchat_cli.turns"), logging.getLogger("flexchat_cli.calls")


def _settings(log_format: LogFormat, log_level: Sequence[str]) -> tuple[LogFormat, Mapping[str, int]]:
    return log_format, read_levels(log_level)


log_options = option_group(
    "log",
    _settings,
    click.option(
        "--log-format", type=click.Choice(["text", "json"]), default="text", help="of the log (default: text)"
    ),
    click.option(
        "--log-level",
        metavar="[LOGGER=]LEVEL",
        multiple=True,
        help="least important records of the log, of all loggers or of one: debug, info, warning, error; repeatable",
    ),
)
"""Adds the options to a command, which receives them as ``log``."""


def read_levels(given: Sequence[str]) -> Mapping[str, int]:
    """Return levels by the loggers' names, "" for FlexChat's own.

    Raises:
        UsageError: There is no such level.
    """
    levels = {}
    for each in given:
        name, _, level = each.rpartition("=")
        if level.lower() not in LEVELS:
            hint = did_you_mean(level.lower(), LEVELS) or f" ({', '.join(LEVELS)})"
            raise UsageError(f"--log-level {each}: there is no level '{level}'{hint}")
        levels[name] = logging.getLevelNamesMapping()[level.upper()]
    return levels


@contextlib.contextmanager
def show_log(terminal: Terminal, settings: tuple[LogFormat, Mapping[str, int]]) -> Iterator[None]:
    """Write the log of this program to standard error, in a format and from certain levels on."""
    log_format, levels = settings
    least = levels.get("", logging.DEBUG if terminal.verbose else logging.INFO)
    levels = {**dict.fromkeys(OURS, least), **{name: level for name, level in levels.items() if name}}
    before = {name: logging.getLogger(name).level for name in levels}
    root = logging.getLogger()
    handlers = [handler for handler in root.handlers if isinstance(handler, Handler)]
    shown = Handler(terminal, JsonFormatter() if log_format == "json" else TextFormatter())
    shown.addFilter(add_ids)
    for handler in handlers:
        root.removeHandler(handler)
    root.addHandler(shown)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    try:
        yield
    finally:
        root.removeHandler(shown)
        for handler in handlers:
            root.addHandler(handler)
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def add_ids(record: logging.LogRecord) -> bool:
    """Add the ids of what the code runs for: of any package, as long as it runs in the context of a request or turn."""
    turn = current_turn.get()
    info = TurnInfo(tenant="") if turn is None else turn.info
    traceparent = traceparent_here() or info.traceparent
    record.ids = {
        "request": current_request.get(),
        "turn": info.id,
        "tenant": info.tenant,
        "principal": "" if info.principal is None else info.principal.name,
        "trace": traceparent[3:35],
        **getattr(record, "ids", {}),
    }
    return True


def _at(record: logging.LogRecord) -> str:
    return f"{_second(int(record.created))}.{int(record.msecs):03}Z"


@functools.lru_cache(maxsize=1)
def _second(timestamp: int) -> str:
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%dT%H:%M:%S")


class TextFormatter(logging.Formatter):
    """One line for each record, and its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text; a message cannot forge a line."""
        ids = " ".join(f"{name}={value}" for name, value in getattr(record, "ids", {}).items() if value)
        message = record.getMessage().replace("\n", "\\n")
        text = f"{_at(record)} {record.levelname.lower()} {record.name}: {message}" + (f" [{ids}]" if ids else "")
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonFormatter(logging.Formatter):
    """One JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object: time, level, logger, message, the ids that are known, and the record's own fields."""
        data = {"timestamp": _at(record), "level": record.levelname.lower(), "logger": record.name}
        data |= {"message": record.getMessage()}
        data |= {name: value for name, value in getattr(record, "ids", {}).items() if value}
        data |= getattr(record, "fields", {})
        if record.exc_info:
            data["exception"] = self.formatException(record.exc_info)
        return json.dumps(data, default=str)


class TurnLog:
    """Hooks that write a line for each turn, however it ends, and for each call of a tool."""

    def __init__(self) -> None:
        self._mask: Callable[[Any], Any] | None = None

    @hookimpl
    def flexchat_app_opened(self, app: AppInfo) -> None:
        """Use the app's mask for arguments."""
        self._mask = app.chat.mask.data

    @hookimpl
    def flexchat_turn_finished(self, turn: Turn) -> None:
        """Write the line of a turn that has its answer."""
        response, cost = turn.response, turn.cost
        usage = response.usage
        tools = [self._tool_name(record) for record in turn.tool_calls]
        fields = {
            "outcome": turn.status,
            "conversation": turn.conversation,
            "rule": turn.rule_name if turn.rule_name is not None else turn.rule,
            "model": f"{response.llm}/{response.model}" if response.llm else None,
            "iteration": len(response.rounds),
            "tool_calls": len(tools),
            "tools": tools,
            "finish_reason": response.finish_reason,
            "input_tokens": usage.input_tokens if usage is not None else None,
            "output_tokens": usage.output_tokens if usage is not None else None,
            "cost_usd": None if cost.amount is None else float(cost.amount),
            "elapsed_ms": round(turn.elapsed_ms, 1),
            "error": turn.error or None,
        }
        shown = ", ".join(f"{name}={value}" for name, value in fields.items() if value not in (None, "", []))
        level = logging.WARNING if turn.status == "failed" else logging.INFO
        turns.log(level, "turn %s", shown, extra={"fields": fields, "ids": {"turn": turn.id}})

    flexchat_turn_failed = flexchat_turn_cancelled = flexchat_turn_suspended = flexchat_turn_finished

    @hookimpl
    def flexchat_tool_finished(self, info: TurnInfo, record: ToolCallRecord) -> None:
        """Write the line of a call: its arguments are in the JSON only, without secrets."""
        if not calls.isEnabledFor(logging.INFO):
            return
        result, params = record.result, None if self._mask is None else self._mask(record.params)
        if len(text := json.dumps(params, default=str)) > MAX_PARAMS_CHARS:
            params = f"{text[:MAX_PARAMS_CHARS]}…"
        tool = self._tool_name(record)
        fields = {"tool": tool, "params": params, "success": result.success, "call": record.call_id}
        fields["execution_time_ms"] = result.execution_time_ms
        outcome = "succeeded" if result.success else f"failed: {result.error}".replace(record.tool, tool)
        ids = {"turn": info.id, "tenant": info.tenant}
        calls.info("tool %s %s, %d ms", tool, outcome, result.execution_time_ms, extra={"fields": fields, "ids": ids})

    def _tool_name(self, record: ToolCallRecord) -> str:
        """Return the name of a call's tool, without secrets: a model may invent one."""
        return record.tool if record.result.success or self._mask is None else str(self._mask(record.tool))
