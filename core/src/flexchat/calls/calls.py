"""The tool executor: builds the list of steps once, and runs it for every call. Guards the steps of plugins."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

import attrs

from ..config.model import ToolsTable
from ..domain import ToolDefinition, ToolResult
from ..domain.fetching import Fetcher
from ..domain.masking import Mask
from ..errors import PluginConflictError, PluginLoadError
from ..plugin.call import STAGES, Call, PluginStep, Rest, Step, stage_problem
from ..plugin.contracts import ImplementationType, Retriever, ToolEncoder, ToolHandler
from ..plugin.foreign import contained
from ..plugin.hooks import Hooks
from ..tools.python_function import PYTHON
from ..tools.registry import ToolRegistry
from ..tools.sources import ToolSources
from .claim import ClaimEffect, Recall
from .effects import Effects
from .outcomes import Outcomes
from .prepared import PreparedTools
from .steps import Approve, Authorize, CheckArguments, KeepApproval, LookUp, ReportCall, Run

log = logging.getLogger(__name__)

DEFAULT_TIMEOUT_MS = 30_000
"""How long a tool may take if neither it nor the config sets a limit."""

_Link = Callable[[Call, Rest], Coroutine[Any, Any, ToolResult]]
"""A step, ready to be called with a call and the rest."""


@attrs.frozen(kw_only=True)
class ToolParts:
    """What a chat's tools are made of, and what their calls use.

    Attributes:
        formats: Tool encoders of the installed providers, by format name.
        offered: The plugins' ready-made tools, which an entry switches on by name.
        hooks: The plugins' gates and steps, and their event hooks for calls that bring no reporter of their own.
    """

    formats: Mapping[str, ToolEncoder] = attrs.field(factory=dict)
    implementation_types: Mapping[str, ImplementationType] = attrs.field(factory=dict)
    handlers: Mapping[tuple[str, str], ToolHandler] = attrs.field(factory=dict)
    offered: Mapping[str, ToolDefinition] = attrs.field(factory=dict)
    stores: Mapping[str, Retriever] = attrs.field(factory=dict)
    hooks: Hooks = attrs.field(factory=Hooks)
    mask: Mask = attrs.field(factory=Mask)
    effects: Effects = attrs.field(factory=Effects)
    fetcher: Fetcher | None = None


class ToolExecutor:
    """Runs tool calls: every way to call a tool ends here. The outcome is a ToolResult, whatever the tool does.

    Args:
        table: The limits, and how much of an error a model is shown.
        sources: The tool sources, some of which may not be open yet; None if there are none.
        open_sources: Where the registry's tools of sources run; default: sources.

    Raises:
        PluginLoadError: A plugin's step is at a stage that does not exist, or at "run".
        PluginConflictError: Two steps have the same name.
        StorageError: Only by a call: a question to a person cannot be recorded in the turn's journal.

    Source: tool-execution specification (requirements TE-1 to TE-19, TC-14, TC-36 to TC-49).
    """

    def __init__(
        self,
        registry: ToolRegistry,
        parts: ToolParts,
        table: ToolsTable | None = None,
        *,
        sources: ToolSources | None = None,
        open_sources: ToolSources | None = None,
    ) -> None:
        table, mask = table or ToolsTable(), parts.mask
        timeout_ms = table.default_timeout_ms or DEFAULT_TIMEOUT_MS
        outcomes = self._outcomes = Outcomes(mask, table.error_detail, table.max_media_bytes)
        prepared = self._prepared = PreparedTools({PYTHON.name: PYTHON, **parts.implementation_types}, parts.handlers)
        gates = parts.hooks.of("flexchat_before_tool_call")
        claim = ClaimEffect(parts.effects, registry, outcomes, mask, timeout_ms)
        self.recalled, self.was_claimed = claim.recalled, claim.was_claimed
        # Recall is outside the look-up: a call whose tool is gone since a crash must still report its effect. Approval
        # comes before the claim: a call that the person declines leaves no row in the ledger.
        core: list[Step] = [
            ReportCall(parts.hooks.tell_call, mask, outcomes),
            Recall(claim),
            LookUp(registry, sources, parts.hooks.refusal if parts.hooks.restricts else None),
            CheckArguments(prepared, outcomes),
            *([Authorize(gates, outcomes)] if gates else []),
            Approve(mask),
            KeepApproval(),
            claim,
            Run(prepared, outcomes, parts.handlers, parts.stores, timeout_ms, parts.fetcher, open_sources or sources),
        ]
        steps = self.steps = _order_steps(core, parts.hooks.steps)
        # From the inside out, since each step is given the rest.
        links = [(step, self._guard(step) if isinstance(step, PluginStep) else step) for step in reversed(steps)]
        self._links = tuple(link for _, link in links)
        # A new call has no earlier run, so the steps about that are left out.
        self._links_of_new = tuple(link for step, link in links if not isinstance(step, Recall | KeepApproval))
        at = next(index for index, (step, _) in enumerate(links) if isinstance(step, CheckArguments))
        self._links_from_arguments = self._links[: at + 1]

    def run(self, call: Call) -> Coroutine[Any, Any, ToolResult]:
        """Return a coroutine that runs all steps. It returns a result for any name and arguments."""
        call.runner = self
        return _chain(call, self._links_of_new if call.is_new else self._links)

    def from_arguments(self, call: Call) -> Coroutine[Any, Any, ToolResult]:
        """Return a coroutine that runs the steps from the argument check on; see Call.again."""
        return _chain(call, self._links_from_arguments)

    async def execute(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        allowed: Collection[str] | None = None,
        timeout_s: float | None = None,
    ) -> ToolResult:
        """Run a tool with these arguments. The outcome is a result for any name and params.

        Args:
            allowed: Names that were offered; any other tool counts as not found. None allows all.
            timeout_s: Seconds left, if fewer than the tool's own timeout.
        """
        call = Call(name=name, arguments=params, origin="program", offered=allowed, seconds_left=lambda: timeout_s)
        return await self.run(call)

    def validate(self, tool: ToolDefinition, params: Mapping[str, Any]) -> list[str]:
        """Return the problems with the arguments, worded by the specification; empty if there are none."""
        return [finding.text for finding in self._prepared.of(tool).checker.check(params).findings]

    def _guard(self, plugin_step: PluginStep) -> _Link:
        """Return a link that calls a plugin's step, and fails closed.

        If it breaks before the tool has started, the call is refused; after that the outcome stands, with a note.
        """
        plugin, step, outcomes = plugin_step.plugin, plugin_step.step, self._outcomes

        async def run(call: Call, inner: Rest) -> ToolResult:
            rest = _Once(call, inner)
            try:
                with contained():
                    answer = await step(call, rest)
                wrong = "" if isinstance(answer, ToolResult) else f"returned {type(answer).__name__}"
            except Exception:
                if call.interruption is not None:
                    raise call.interruption from None
                log.exception("plugin %s: the step %s failed", plugin, step.name)
                wrong = "failed"
            finally:
                # A step that keeps ``rest`` must not start the tool after the call has its result.
                rest.is_over = True
            if not wrong:
                # The tool's own result has passed the rules for results; one that the step made has not.
                return answer if answer is rest.result else outcomes.from_answer(call.name, answer)
            return _outcome_without_step(plugin, step.name, wrong, call, rest)

        return run


class _Once:
    """The rest of a list, for a plugin's step: it can be awaited once, and only while the step runs."""

    __slots__ = ("_call", "_inner", "_restarts", "_used", "is_over", "result")

    def __init__(self, call: Call, inner: Rest) -> None:
        self._call, self._inner, self._restarts = call, inner, len(call.restarts)
        self._used = self.is_over = False
        self.result: ToolResult | None = None

    async def __call__(self) -> ToolResult:
        if self._used or self.is_over or len(self._call.restarts) > self._restarts:
            raise RuntimeError("the rest of a tool call may be awaited once, and not after call.again() or the answer")
        # Set before the wait: a step that awaits twice at the same time must not run the tool twice.
        self._used = True
        self.result = await self._inner()
        return self.result

    def outcome(self) -> ToolResult | None:
        """Return the outcome of the rest, or of starting over; None if neither has ended."""
        if self.result is None and len(self._call.restarts) > self._restarts:
            return self._call.restarts[self._restarts]
        return self.result


def _outcome_without_step(plugin: str, step: str, wrong: str, call: Call, rest: _Once) -> ToolResult:
    """Return the outcome of a call whose step has broken."""
    if not call.has_started:
        log.error("plugin %s: the step %s %s; the call is refused", plugin, step, wrong)
        return ToolResult.failed(call.name, f"plugin {plugin} could not decide about this call")
    # The tool has started, so a refusal would deny an effect. Without an outcome, the effect is unknown.
    result = rest.outcome()
    if result is None:
        call.uncertainty = f"plugin {plugin} broke off the call"
        text = f"plugin {plugin} broke off the call while the tool was running, so what it did is unknown"
        return ToolResult.failed(call.name, text)
    call.note(f"plugin {plugin}: the step {step} {wrong} after the tool had run")
    return result


def _chain(call: Call, links: Sequence[_Link]) -> Coroutine[Any, Any, ToolResult]:
    """Return a coroutine that runs a call through steps, given from the inside out."""
    rest: Rest = _no_inner_step
    for link in links:
        rest = functools.partial(link, call, rest)
    return rest()


async def _no_inner_step() -> ToolResult:
    raise AssertionError("the step that runs the tool is the innermost")


def _order_steps(core: Sequence[Step], theirs: Sequence[PluginStep]) -> tuple[Step | PluginStep, ...]:
    """Return all steps from the outside in: by stage, core's first, the others in their given order."""
    owners = {step.name: "flexchat" for step in core} | {Authorize.name: "flexchat"}
    for each in theirs:
        problem = stage_problem(each.step)
        if problem is not None:
            raise PluginLoadError(each.plugin, problem)
        if each.step.name in owners:
            raise PluginConflictError("step", each.step.name, (owners[each.step.name], each.plugin))
        owners[each.step.name] = each.plugin
    at: dict[str, list[Step | PluginStep]] = {stage: [] for stage in STAGES}
    for step in core:
        at[step.stage].append(step)
    for each in theirs:
        at[each.step.stage].append(each)
    return tuple(step for stage in STAGES for step in at[stage])
