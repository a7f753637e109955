"""The laws of an implementation type: a way to run a tool."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
from flexchat.host import structure_mapping
from flexchat.plugin import Implementation, ImplementationType, ToolContext, ToolDefinition, ToolHandler
from flexchat.store import Retriever

from .law import expect, law, raising_only, require, show
from .running import ACall, CallConformance
from .samples import FIRST

STRANGE_VALUES: tuple[Any, ...] = (None, True, -1, 1e308, "", "x", [], [None], {}, {"x": {}})


class ImplementationConformance(CallConformance):
    """What every implementation type keeps.

    Attributes:
        implementation: The record the plugin registers.
        settings: Implementation tables of tools that work, without ``type``.
        wrong_settings: Tables that it "checks", and refuses when a config is loaded.
        failing: Tables with which a call fails, where there are any ("refuses").
        params: The arguments of a call.
        tool: The tool that is run; its settings come from the tables.
    """

    capabilities: ClassVar[Mapping[str, str]] = {
        "checks": "some settings are wrong beyond their types: wrong_settings",
        "refuses": "some calls fail: failing",
    }
    implementation: ClassVar[ImplementationType]
    settings: ClassVar[Sequence[Mapping[str, Any]]] = ({},)
    wrong_settings: ClassVar[Sequence[Mapping[str, Any]]] = ()
    failing: ClassVar[Sequence[Mapping[str, Any]]] = ()
    params: ClassVar[Mapping[str, Any]] = {"n": 1}
    tool: ClassVar[ToolDefinition] = FIRST

    def handlers(self) -> Mapping[tuple[str, str], ToolHandler]:
        """Return the installed handlers, by kind and name."""
        return {}

    def stores(self) -> Mapping[str, Retriever]:
        """Return the configured document stores."""
        return {}

    def structured(self, table: Mapping[str, Any]) -> Any:
        """Return the settings a table means.

        Raises:
            AssertionError: It is refused.
        """
        value, problems = structure_mapping(table, self.implementation.settings_class)
        require(not problems, f"the settings {show(table)} are refused: {'; '.join(problems)}")
        return value

    def defined(self, table: Mapping[str, Any]) -> ToolDefinition:
        """Return the tool with these settings."""
        implementation = Implementation(type=self.implementation.name, settings=table)
        return attrs.evolve(self.tool, implementation=implementation)

    async def call(self, table: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> Any:
        """Run the tool as FlexChat does."""
        context = ToolContext(tool=self.defined(table), handlers=self.handlers(), stores=self.stores())
        arguments = copy.deepcopy(dict(self.params)) if params is None else params
        return await self.implementation.run(self.structured(table), arguments, context)

    def _calls(self, *, refused: bool = False) -> list[ACall]:
        require(self.failing or not refused, 'supports has "refuses": failing must hold settings with which it fails')
        return [self._call_with(table) for table in (self.failing if refused else self.settings)]

    def _call_with(self, table: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> ACall:
        return self._bounded(f"a call with {show(table)}", lambda: self.call(table, params))

    def refusal(self, table: Mapping[str, Any]) -> str | None:
        """Load a table as part of a config; return the problem, or None if it is accepted."""
        value, problems = structure_mapping(table, self.implementation.settings_class)
        if problems:
            return "; ".join(problems)
        check = self.implementation.check
        return check(value, self.defined(table), self.handlers()) if check else None

    @law()
    def test_it_is_an_implementation_type(self) -> None:
        """It has a name, an attrs class for its settings, an async run(settings, params, context), and a summary."""
        implementation = getattr(type(self), "implementation", None)
        require(
            isinstance(implementation, ImplementationType), f"it must be an ImplementationType, got {implementation!r}"
        )
        require(attrs.has(self.implementation.settings_class), "settings_class must be an attrs class")
        require(inspect.iscoroutinefunction(self.implementation.run), "run must be an async def")
        require(self.implementation.summary, "summary is what flexchat plugins shows: one line")

    @law()
    def test_right_settings_are_taken(self) -> None:
        """Tables that work are structured without a problem, and check finds nothing."""
        for table in self.settings:
            text = self.refusal(table)
            require(text is None, f"the settings {show(table)} are refused: {text}")

    @law("checks")
    def test_wrong_settings_are_refused_when_they_are_loaded(self) -> None:
        """Settings that cannot work are refused with a sentence when the config is read, not during a turn."""
        require(self.wrong_settings, 'supports has "checks": wrong_settings must hold tables that are refused')
        for table in self.wrong_settings:
            text = self.refusal(table)
            require(text is not None, f"the settings {show(table)} are taken: let check return what is wrong with them")
            require(isinstance(text, str) and text.strip(), f"for {show(table)} check returns {text!r}, not a sentence")

    @law()
    def test_strange_settings_are_read_or_refused(self) -> None:
        """Any table of a config is accepted, or refused with a sentence; no other exception is raised."""
        fields = [field.name for field in attrs.fields(self.implementation.settings_class) if field.init]
        for table in self.settings:
            for name in fields:
                for value in STRANGE_VALUES:
                    strange = {**table, name: value}
                    with raising_only(what=f"reading the settings {show(strange)}"):
                        text = self.refusal(strange)
                    require(text is None or text.strip(), f"the settings {show(strange)} are refused without a word")

    @law()
    async def test_it_leaves_its_arguments_alone(self) -> None:
        """Arguments and settings are the caller's, and the next call's: copy what you change or give away."""
        for table in self.settings:
            arguments = copy.deepcopy(dict(self.params))
            settings = copy.deepcopy(dict(table))
            first = await self._call_with(settings, arguments)[1]()
            expect(arguments, self.params, f"the call changed its arguments from {show(self.params)}")
            require(settings == table, f"the call changed its settings from {show(table)} to {show(settings)}")
            if isinstance(first, dict | list):
                value = self.structured(table)
                context = ToolContext(tool=self.defined(table), handlers=self.handlers(), stores=self.stores())
                outcome = await self.implementation.run(value, dict(arguments), context)
                before = repr(value)
                outcome.clear()
                require(repr(value) == before, "what a call returned is part of its settings: return a copy")
