"""Conformance subjects: the handlers and implementation type that FlexChat's test kit exercises.

Used by tests/test_conformance.py and by ``flexchat plugins verify builtin``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from flexchat.plugin import Implementation, ToolDefinition, ToolHandler
from flexchat_testing import HandlerConformance, ImplementationConformance

from . import handlers
from .implementation import KIND
from .plugin import flexchat_register_implementation_types, flexchat_register_tools

_PLUGIN = "flexchat_builtin.plugin"
_TOOLS = {tool.name: tool for tool in flexchat_register_tools()}


def _handler(call: Callable[..., Any]) -> ToolHandler:
    return ToolHandler(kind=KIND, name=call.__name__, call=call)


class _Handler(HandlerConformance):
    plugin = _PLUGIN


class _RefusingHandler(_Handler):
    supports = frozenset({"refuses"})


class MathEval(_RefusingHandler):
    """math_eval, as the calculator uses it."""

    handler = _handler(handlers.math_eval)
    tool = _TOOLS["calculator"]
    good = ({"expression": "2 * (3 + 4)"}, {"expression": "sqrt(2) / 3"})
    bad = ({}, {"expression": " "}, {"expression": "1 / 0"}, {"expression": "9 ** 9 ** 9"}, {"expression": "open('x')"})


class Echo(_Handler):
    """echo."""

    handler = _handler(handlers.echo)
    good = ({"text": "Grüße", "nested": {"list": [1, None]}}, {})


class CurrentDatetime(_RefusingHandler):
    """get_current_datetime."""

    handler = _handler(handlers.get_current_datetime)
    tool = _TOOLS["get_current_datetime"]
    good = ({}, {"timezone": "Europe/Oslo"})
    bad = ({"timezone": "Atlantis"}, {"timezone": 5}, {"timezone": "../etc/passwd"})


class GenerateUuid(_Handler):
    """generate_uuid."""

    handler = _handler(handlers.generate_uuid)
    tool = _TOOLS["generate_uuid"]
    good = ({},)


class TextLength(_RefusingHandler):
    """text_length."""

    handler = _handler(handlers.text_length)
    tool = _TOOLS["text_length"]
    good = ({"text": "two words"},)
    bad = ({}, {"text": 5}, {"text": "x" * 100_001})


class TextCase(_RefusingHandler):
    """text_case."""

    handler = _handler(handlers.text_case)
    tool = _TOOLS["text_case"]
    good = ({"text": "don't", "case": "title"},)
    bad = ({"text": "x", "case": "upside down"}, {"text": "x"})


class TextReplace(_RefusingHandler):
    """text_replace."""

    handler = _handler(handlers.text_replace)
    tool = _TOOLS["text_replace"]
    good = ({"text": "a b a", "find": "a", "replace": "c"},)
    bad = ({"text": "a", "find": "", "replace": "c"}, {"text": "a" * 1000, "find": "a", "replace": "b" * 1000})


class TextSplit(_RefusingHandler):
    """text_split."""

    handler = _handler(handlers.text_split)
    tool = _TOOLS["text_split"]
    good = ({"text": "a,b", "separator": ","}, {"text": "a b"})
    bad = ({}, {"text": "a", "separator": 5})


class TextSearch(_RefusingHandler):
    """text_search, which runs in a thread."""

    handler = _handler(handlers.text_search)
    tool = _TOOLS["text_search"]
    good = ({"text": "a1 b22", "pattern": r"[a-z](\d+)"},)
    bad = ({"text": "a", "pattern": "("}, {"text": "a", "pattern": r"(a)\1"})


class Builtin(ImplementationConformance):
    """The implementation type."""

    supports = frozenset({"checks", "refuses"})
    plugin = _PLUGIN
    implementation = next(flexchat_register_implementation_types())
    tool = ToolDefinition(
        name="echo",
        description="Say it again",
        parameters={"type": "object"},
        implementation=Implementation(type=KIND),
    )
    settings = ({}, {"handler": "echo"})
    wrong_settings = ({"handler": "ecko"}, {"handler": 5}, {"handel": "echo"})
    failing = ({"handler": "math_eval"},)
    params: ClassVar = {"text": "x", "n": [1]}

    def handlers(self) -> Mapping[tuple[str, str], ToolHandler]:
        """Return two handlers."""
        return {(KIND, call.__name__): _handler(call) for call in (handlers.echo, handlers.math_eval)}
