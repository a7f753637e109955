"""The laws of a tool handler."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from flexchat.host import ArgumentChecker
from flexchat.plugin import ToolContext, ToolDefinition, ToolHandler
from flexchat.store import Retriever

from .law import law, require, show
from .running import ACall, CallConformance, TooSlowError
from .samples import FIRST


class HandlerConformance(CallConformance):
    """What every tool handler keeps.

    Attributes:
        handler: The record the plugin registers.
        good: Arguments it answers.
        bad: Arguments that the schema allows but it refuses, if it "refuses" any.
        tool: A tool that uses it, whose schema the good arguments fit; None if the plugin offers none.
    """

    capabilities: ClassVar[Mapping[str, str]] = {"refuses": "it refuses some arguments, which bad lists"}
    handler: ClassVar[ToolHandler]
    good: ClassVar[Sequence[Mapping[str, Any]]] = ()
    bad: ClassVar[Sequence[Mapping[str, Any]]] = ()
    tool: ClassVar[ToolDefinition | None] = None

    def stores(self) -> Mapping[str, Retriever]:
        """Return the document stores the handler finds in its context."""
        return {}

    async def call(self, params: Mapping[str, Any]) -> Any:
        """Run the handler as FlexChat does."""
        context = ToolContext(tool=self.tool or FIRST, stores=self.stores())
        return await context.call(self.handler, params)

    def _calls(self, *, refused: bool = False) -> list[ACall]:
        require(self.bad or not refused, 'supports has "refuses": bad must hold arguments it refuses')
        return [self._call_with(params) for params in (self.bad if refused else self.good)]

    def _call_with(self, params: Mapping[str, Any]) -> ACall:
        return self._bounded(f"the call with {show(params)}", lambda: self.call(copy.deepcopy(params)))

    @law()
    def test_it_is_a_handler(self) -> None:
        """A handler has a kind, a name and a call that takes params and context."""
        handler = getattr(type(self), "handler", None)
        require(isinstance(handler, ToolHandler), f"handler must be the ToolHandler the plugin yields, got {handler!r}")
        require(self.good, "good must hold arguments that the handler answers, at least one object")
        try:
            inspect.signature(self.handler.call).bind({}, None)
        except TypeError as error:
            raise AssertionError(f"call must take (params, context): {error}") from None

    @law()
    async def test_it_leaves_its_arguments_alone(self) -> None:
        """The arguments are the caller's, nested ones too: copy what you change."""
        for params in (*self.good, *self.bad):
            arguments = copy.deepcopy(dict(params))
            try:
                await self._bounded("the call", functools.partial(self.call, arguments))[1]()
            except (asyncio.CancelledError, TooSlowError):
                raise
            except Exception:  # noqa: BLE001  refusing is another law
                pass
            require(arguments == params, f"the call changed its arguments from {show(params)} to {show(arguments)}")

    @law()
    def test_its_good_arguments_fit_its_tool(self) -> None:
        """Where the plugin offers a tool for it, the schema lets through what the handler answers."""
        if self.tool is None:
            return
        checker = ArgumentChecker(self.tool.parameters)
        for params in self.good:
            problems = checker.check(params).problems
            require(not problems, f"the schema of {self.tool.name} refuses {show(params)}: {', '.join(problems)}")
