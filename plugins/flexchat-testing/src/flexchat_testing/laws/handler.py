"""The laws of a tool handler."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from flexchat.host import ArgumentChecker
from flexchat.plugin import ToolContext, ToolDefinition, ToolHandler
from flexchat.store import Retriever

from .law import Conformance, law, require, show
from .running import TooSlowError, check_error, check_json, check_light, check_loop_free, in_time
from .samples import FIRST


class HandlerConformance(Conformance):
    """What every tool handler keeps.

    Attributes:
        handler: The record the plugin registers.
        good: Arguments it answers.
        bad: Arguments that the schema allows but it refuses, if it "refuses" any.
        tool: A tool that uses it, whose schema the good arguments fit; None if the plugin offers none.
        plugin: The module of the entry point, for the law about imports.
        deadline_s: Seconds one call may take.
    """

    capabilities: ClassVar[Mapping[str, str]] = {"refuses": "it refuses some arguments, which bad lists"}
    handler: ClassVar[ToolHandler]
    good: ClassVar[Sequence[Mapping[str, Any]]] = ()
    bad: ClassVar[Sequence[Mapping[str, Any]]] = ()
    tool: ClassVar[ToolDefinition | None] = None
    plugin: ClassVar[str] = ""
    deadline_s: ClassVar[float] = 5.0

    def stores(self) -> Mapping[str, Retriever]:
        """Return the document stores the handler finds in its context."""
        return {}

    async def call(self, params: Mapping[str, Any]) -> Any:
        """Run the handler as FlexChat does."""
        context = ToolContext(tool=self.tool or FIRST, stores=self.stores())
        return await context.call(self.handler, params)

    async def _bounded(self, params: Mapping[str, Any]) -> Any:
        return await in_time(lambda: self.call(params), self.deadline_s, f"the call with {show(params)}")

    def _calling(self, params: Mapping[str, Any]) -> Callable[[], Awaitable[Any]]:
        return lambda: self._bounded(copy.deepcopy(params))

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
    async def test_its_answer_is_json(self) -> None:
        """What a handler returns goes to the model as JSON: no NaN, no bytes, no objects of its own."""
        for params in self.good:
            check_json(await self._calling(params)(), f"the answer to {show(params)}")

    @law("refuses")
    async def test_its_errors_are_for_the_model(self) -> None:
        """The model reads the error and tries again: it names the argument and its problem, not a place in the code."""
        require(self.bad, 'supports has "refuses": bad must hold arguments it refuses')
        for params in self.bad:
            await check_error(self._calling(params), f"the call with {show(params)}")

    @law()
    async def test_it_answers_in_time(self) -> None:
        """A deadline stops the waiting, not a thread: a handler bounds its own work."""
        for params in self.good:
            await self._calling(params)()

    @law()
    async def test_it_leaves_the_loop_free(self) -> None:
        """An async def may not block; a plain def runs in a thread and may."""
        for params in self.good:
            await check_loop_free(self._calling(params), f"the call with {show(params)}")

    @law()
    async def test_it_leaves_its_arguments_alone(self) -> None:
        """The arguments are the caller's, nested ones too: copy what you change."""
        for params in (*self.good, *self.bad):
            arguments = copy.deepcopy(dict(params))
            try:
                await self._bounded(arguments)
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

    @law()
    def test_its_module_is_light(self) -> None:
        """Every command imports every plugin: what is heavy is imported where it is used."""
        check_light(self.plugin)
