"""What happens to a tool call: core's steps, in order from the outside in.

report      reports that the call begins and its outcome, unless the turn ends before there is one; measures the time
look up     finds the tool by its name, if it was offered; a call refused by the round, or that the principal may not
            make (flexchat_refusal), ends here
arguments   checks them against the whole schema, and converts those that can be converted without loss
authorize   flexchat_before_tool_call of the plugins: the first that answers does so in the tool's place
approve     asks a person about tools that need approval: approve = true of the tool, its rule or its turn
reserve     requires an approval that an earlier run of the call has asked for; for packages that hold a budget and
            settle it
claim       makes an effect happen only once: claim.py; a tool that changes nothing passes, unless an earlier run of
            this call has left a row in the ledger
run         runs the tool, each attempt within its time; what it returns or raises is converted into a result

On the way out, at the stage "report", ``recall`` replaces the refusal of a call that was made before a crash by its
outcome in the ledger (claim.py).

A step is an async function around the rest. At each stage plugins' steps follow core's, in order of the plugins'
names, those of ``FlexChat.from_config(…, hooks=[…])`` last: calls.py builds the list.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar

import attrs

from ..config.wording import printable
from ..domain import ToolResult, ToolRetry, TurnInfo
from ..domain.copies import copied, read_only
from ..domain.fetching import Fetcher
from ..domain.masking import Mask
from ..domain.questions import NOBODY, Reply
from ..domain.text import is_encodable, scrub_json
from ..errors import ArgumentsError, ToolError, nearest
from ..plugin.call import Call, Deadline, Rest, Stage, Tell, current_call
from ..plugin.contracts import Retriever, ToolContext, ToolHandler
from ..plugin.foreign import STILL_RUNNING, contained, run_in_thread
from ..plugin.hooks import HookCall, ToolGate
from ..schema.check import ArgumentChecker, CheckedArguments, load
from ..schema.wording import joined, quoted
from ..tools.deferral import FINDER
from ..tools.registry import ToolRegistry
from ..tools.sources import ToolSources
from .outcomes import Outcomes, doubt, nothing_done, retry_after
from .prepared import PreparedTools

log = logging.getLogger(__name__)

_NAMES_SHOWN = 20
_WITH_KEY = ToolRetry(max_attempts=2)
"""Of a tool that honours its key and has no retry of its own."""

MAX_APPROVAL_CHARS = 16_384
"""Characters of the arguments in the question whether a call may run."""


@attrs.frozen
class ReportCall:
    """Reports the start of every call and its outcome, if it has one: also of a call refused, or to an unknown tool."""

    name: ClassVar[str] = "report"
    stage: ClassVar[Stage] = "report"
    tell: Tell
    mask: Mask
    outcomes: Outcomes

    async def __call__(self, call: Call, rest: Rest) -> ToolResult:
        """Start the clock here, so that execution_time_ms includes the waiting of every step."""
        started = time.perf_counter()
        if not isinstance(call.name, str):
            call.name = quoted(call.name)
        tell = call.tell or self.tell
        await tell(call, None)
        result = self.outcomes.finished(call, await rest(), started)
        await tell(call, result)
        log.debug("tool %s: success=%s, %d ms", self.mask(call.name), result.success, result.execution_time_ms)
        return result


@attrs.frozen
class LookUp:
    """Finds the tool; ends a call refused by the round, or whose tool is unknown or was not offered."""

    name: ClassVar[str] = "look up"
    stage: ClassVar[Stage] = "look up"
    registry: ToolRegistry
    sources: ToolSources | None = None
    refusal_of: Callable[[TurnInfo, Any], str | None] | None = None

    async def __call__(self, call: Call, rest: Rest) -> ToolResult:
        """Set call.tool."""
        tool = call.tool or (call.offer.get(call.name) if call.offer is not None else None)
        if tool is not None:
            tool = self.registry.now(tool)  # it may have changed since it was offered, or be gone: never another's
        elif call.offer is None or call.offered is None:
            tool = self.registry.get(call.name)
            if tool is None and self.sources is not None and call.offered is None and self.sources.by_name:
                tool = await self.sources.find(call.name)
        is_offered = call.offered is None or call.name in call.offered
        if is_offered:
            call.tool = tool
        # Refused after the look-up: the record of the call, and the recall around it, need its tool.
        if call.refusal is not None:
            return ToolResult.failed(call.name, call.refusal)
        # Before the arguments are checked: a refusal must not depend on them, nor describe the schema.
        if self.refusal_of is not None and (refused := self._refused(call)) is not None:
            return refused
        if call.tool is None:
            if call.offered is not None and self.registry.has(call.name):
                log.warning("tool %s: called although it was not offered; refused", call.name)
            return self._not_found(call)
        return await rest()

    def _refused(self, call: Call) -> ToolResult | None:
        """Return the error of a tool that the principal may not use, also of one that was therefore not offered."""
        assert self.refusal_of is not None
        tool = call.tool or self.registry.get(call.name)
        if tool is None or not self.registry.needs_grant(tool):
            return None
        if (why := self.refusal_of(call.turn, tool)) is None:
            return None
        call.facts["refused"] = {"why": why}
        log.warning("tool %s is refused: %s", call.name, why)
        return ToolResult.failed(call.name, f"Not permitted: {why}")

    def _not_found(self, call: Call) -> ToolResult:
        """Return the specified error; its hint names the tool that may have been meant, and those that exist."""
        name = call.name
        if call.offered is not None:  # a model asks: it knows the tools it was offered, under the names it was given
            offer = call.offer or self.registry
            names = tuple(offer.wire_name(name) for name in offer.names() if name in call.offered)
            name = offer.wire_name(call.name)
        elif several := self.registry.sources_with(call.name):
            hint = f"several tool sources have one ({', '.join(several)}): give one of them a prefix"
            return ToolResult.failed(call.name, f"Tool '{name}' not found", hint=hint)
        elif self.refusal_of is not None:
            tools = self.registry.list()
            names = tuple(tool.name for tool in tools if self.refusal_of(call.turn, tool) is None)
        else:
            names = self.registry.names()
        listed = ", ".join(names[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
        close = nearest(name, names)
        hint = f"did you mean '{close}'? " if close is not None else ""
        hint += f"available tools: {listed or 'none'}"
        if call.offered is not None and FINDER in call.offered:
            hint += f"; {FINDER} finds others"
        if call.offered is None and self.sources is not None:  # else it is among the turn's warnings
            hint = "; ".join([hint, *self.sources.missing()])
        return ToolResult.failed(call.name, f"Tool '{name}' not found", hint=hint)


@attrs.frozen
class CheckArguments:
    """Checks the arguments; ends a call whose arguments are wrong."""

    name: ClassVar[str] = "arguments"
    stage: ClassVar[Stage] = "arguments"
    prepared: PreparedTools
    outcomes: Outcomes

    async def __call__(self, call: Call, rest: Rest) -> ToolResult:
        """Set call.arguments to the checked arguments."""
        assert call.tool is not None
        try:
            if self.prepared.is_slow(call.tool):  # imports take long, and would hold up every other turn
                await run_in_thread(self.prepared.of, call.tool)
            checker = self.prepared.of(call.tool).checker
            checked = await _check(checker, _encodable(call, call.arguments))
            if checked.notes and not checked.findings and not is_encodable(checked.params):
                # A text that was read as JSON may hold escapes of its own.
                checked = await _check(checker, _encodable(call, checked.params))
        except RecursionError:
            return ToolResult.failed(call.name, "Invalid parameters: they are nested too deeply")
        except ToolError as error:
            return self.outcomes.of_trouble(call.name, error)
        # Notes stay on a call that is refused as well: they explain the finding.
        call.notes += checked.notes
        if checked.findings:
            wrong = joined(checked.findings)
            return ToolResult.failed(call.name, f"Invalid parameters: {wrong.text}", hint=wrong.hint)
        # Nothing may change what was checked: gates and steps get a view, and Run compares it with what it is given.
        call.arguments = call.checked = read_only(checked.params)
        return await rest()


@attrs.frozen
class Authorize:
    """Asks flexchat_before_tool_call of the plugins; the first answer replaces the tool's. Absent if none has it."""

    name: ClassVar[str] = "flexchat_before_tool_call"
    stage: ClassVar[Stage] = "authorize"
    gates: Sequence[HookCall]
    outcomes: Outcomes

    async def __call__(self, call: Call, rest: Rest) -> ToolResult:
        """Let the call continue if every gate returns None; one that breaks refuses it."""
        assert call.tool is not None
        facts = ToolGate(info=call.turn, call_id=call.id, tool=call.tool, params=call.arguments, call=call)
        for gate in self.gates:
            try:
                answer = await gate(facts)
            except Exception:
                log.exception("plugin %s: %s failed; the call is refused", gate.plugin, self.name)
                return ToolResult.failed(call.name, f"plugin {gate.plugin} could not decide about this call")
            if isinstance(answer, ToolResult):
                return self.outcomes.from_answer(call.name, answer)
            if answer is not None:
                log.error("plugin %s: %s returned %s; the call is refused", gate.plugin, self.name, type(answer))
                return ToolResult.failed(call.name, f"plugin {gate.plugin} gave an answer that is not a ToolResult")
        return await rest()


@attrs.frozen
class Approve:
    """Asks the person behind the call about tools that need approval; only their yes lets the call continue."""

    name: ClassVar[str] = "approve"
    stage: ClassVar[Stage] = "approve"
    mask: Mask

    def __call__(self, call: Call, rest: Rest) -> Coroutine[Any, Any, ToolResult]:
        """Let calls of other tools pass straight through."""
        assert call.tool is not None
        return self._ask_person(call, rest) if call.approve or call.tool.approve else rest()

    async def _ask_person(self, call: Call, rest: Rest) -> ToolResult:
        # A resumed turn must not ask again about a call that was approved before.
        if await call.was_claimed():  # it may have taken effect, and a refusal would contradict that
            return await rest()
        details = {"arguments": self.mask.data(call.arguments)}
        reply = await call.ask(self._approval_question(call), digest=call.approval_digest(), details=details)
        if reply.action == "accept":
            call.is_approved = True
            call.note("approved")
            return await rest()
        return _unapproved(call, reply)

    def _approval_question(self, call: Call) -> str:
        """Return the question: invisible characters are escaped, and an omission states how much is missing."""
        if not call.arguments:
            return f"Run {call.name} without arguments?"
        text = printable(json.dumps(self.mask.data(call.arguments), ensure_ascii=False, default=repr))
        missing = len(text) - MAX_APPROVAL_CHARS
        if missing <= 0:
            return f"Run {call.name} with {text}?"
        return f"Run {call.name} with {text[:MAX_APPROVAL_CHARS]} … and {missing:,} more characters?"


@attrs.frozen
class KeepApproval:
    """Requires the yes to a question that an earlier run of the call has asked, if no step requires it any more.

    Its policy, or the plugin that asked, may be gone since: the person's decision still counts.
    """

    name: ClassVar[str] = "keep approval"
    stage: ClassVar[Stage] = "reserve"

    async def __call__(self, call: Call, rest: Rest) -> ToolResult:
        """Let a call that is approved now, or about which nothing was asked, pass straight through."""
        approval = None if call.asked is None or call.is_approved else call.asked.approval_of(call)
        if approval is None or call.approval is not None or await call.was_claimed():
            return await rest()
        question, is_same = approval
        if not is_same:
            return ToolResult.failed(call.name, f"Not executed: '{call.name}' was to be approved with other arguments")
        assert call.asker is not None
        reply = await call.asker(call, question)
        if reply.action != "accept":
            return _unapproved(call, reply)
        current = question.details.get("arguments")
        if reply.content.get("arguments", current) != current:
            text = f"Not executed: a person has changed the arguments of '{call.name}', and no plugin applies that"
            return ToolResult.failed(call.name, text, hint="the policy that required the approval is gone")
        call.note("approved")
        return await rest()


def _unapproved(call: Call, reply: Reply) -> ToolResult:
    """Return the refusal of a call that a person did not approve."""
    if reply.action == "decline" and reply.why != NOBODY:
        text = f"Not executed: the user did not approve this call of '{call.name}'"
        return ToolResult.failed(call.name, text, hint=reply.why or None)
    text = f"Not executed: a person must approve '{call.name}', and nobody approved this call"
    return ToolResult.failed(call.name, text, hint=reply.why or "the question was closed without an answer")


@attrs.frozen
class Run:
    """Runs the tool, and converts what it returns or raises into a result. The innermost step."""

    name: ClassVar[str] = "run"
    stage: ClassVar[Stage] = "run"
    prepared: PreparedTools
    outcomes: Outcomes
    handlers: Mapping[tuple[str, str], ToolHandler]
    stores: Mapping[str, Retriever]
    default_timeout_ms: int
    fetcher: Fetcher | None = None
    sources: ToolSources | None = None

    async def __call__(self, call: Call, rest: Rest) -> ToolResult:
        """Set call.has_started; rest is not awaited, because nothing is further inside."""
        # Claim and approval were for one run. A second one would have neither.
        if call.has_started:
            return ToolResult.failed(call.name, "Not executed: this call has been run already")
        result, requested_s = await self._attempt(call)
        assert call.tool is not None
        retry = call.tool.retry
        # Retried inside the claim: the attempts are one effect, with one key and one row.
        if retry is None and call.uncertainty and call.tool.honours_key:
            retry, requested_s = _WITH_KEY, requested_s or 0.0  # its answer was lost: the key makes a repetition safe
        if requested_s is not None and retry is not None and call.tool.may_repeat:
            return await self._again(call, retry, result, requested_s)
        return result

    async def _again(self, call: Call, retry: ToolRetry, result: ToolResult, requested_s: float | None) -> ToolResult:
        """Try again after a first attempt, for as long as that may help; each attempt has the call's key."""
        attempts, earlier = 1, call.uncertainty
        while requested_s is not None and (wait_s := retry.wait_s(attempts, requested_s)) is not None:
            left_s = call.seconds_left() if call.seconds_left is not None else None
            if left_s is not None and left_s <= wait_s:
                break
            call.note(f"attempt {attempts} of {retry.max_attempts} failed: {result.explained()}")
            log.warning("tool %s: trying again in %.1f s", call.name, wait_s)
            await asyncio.sleep(wait_s)
            attempts, call.uncertainty = attempts + 1, ""
            result, requested_s = await self._attempt(call)
            if result.success:
                return result
            earlier = call.uncertainty = call.uncertainty or earlier  # an earlier attempt may have taken effect
        return result

    async def _attempt(self, call: Call) -> tuple[ToolResult, float | None]:
        """Run the tool; return its result, and None or, if another attempt may help, the seconds to wait first."""
        tool = call.tool
        assert tool is not None
        limit_ms = tool.timeout_ms if tool.timeout_ms is not None else self.default_timeout_ms
        left_s = call.seconds_left() if call.seconds_left is not None else None
        if left_s is not None:
            limit_ms = min(limit_ms, round(left_s * 1000))
        if limit_ms <= 0:
            return ToolResult.failed(call.name, "Not executed: no time is left for this message"), None
        # Compared by identity: the checked arguments are read-only, so the same object cannot have changed.
        if call.arguments is not call.checked:
            log.error("%s: a step replaced its checked arguments; the call is refused", call.name)
            text = "Not executed: a plugin changed the arguments after they had been checked"
            return ToolResult.failed(call.name, text), None
        prepared = self.prepared.of(tool)
        context = ToolContext(
            tool=tool,
            handlers=self.handlers,
            stores=self.stores,
            settings=prepared.handler_settings,
            fetcher=self.fetcher,
            source=self.sources.by_name.get(tool.source) if self.sources is not None and tool.source else None,
            made_for=call,
        )
        # From here on the tool may act: a call that ends without an outcome is unknown, no longer refused.
        call.has_started, call.attempts, deadline = True, call.attempts + 1, Deadline(limit_ms / 1000)
        call.has_reported_failure = call.has_returned = False
        changing: Call | None = call if tool.effect == "write" else None
        while changing is not None:  # the calls of the tools that call this one, which may end before it does
            changing.begun_effect, changing = call.claimed, changing.parent
        call.deadline = deadline
        token = current_call.set(call)
        try:
            with contained():
                async with deadline:
                    # A copy: a tool may do what it likes with its arguments; the record keeps what the model wrote.
                    own = copied(call.arguments)
                    value = await prepared.implementation.run(prepared.settings, own, context)
                call.has_returned = True
                return self.outcomes.of_value(call.name, value), None
        except ArgumentsError as error:
            return self.outcomes.of_arguments(call.name, error), None
        except Exception as error:  # noqa: BLE001  a tool may raise anything, and the model gets it
            # Not an outcome, also if the tool caught it and converted it to another error.
            if call.interruption is not None:
                raise call.interruption from None
            # Only our own deadline: a TimeoutError of the tool's own is an error like any other.
            if isinstance(error, TimeoutError) and deadline.expired():
                log.warning("tool %s: not finished after %d ms", call.name, limit_ms)
                text = f"Tool execution timed out after {limit_ms}ms"
                if nothing_done(error.__cause__):
                    return ToolResult.failed(call.name, text, hint="nothing had been sent yet"), 0.0
                call.uncertainty = f"it was not finished after {limit_ms} ms"
                return ToolResult.failed(call.name, text, hint=_left_behind(error)), 0.0
            if call.has_returned:
                return self.outcomes.of_unreadable(call.name, error, is_write=tool.effect == "write"), None
            call.uncertainty = doubt(error)
            call.has_reported_failure = isinstance(error, ToolError) and not call.uncertainty
            return self.outcomes.of_error(call.name, error), retry_after(error)
        finally:
            call.may_have_acted = call.may_have_acted or bool(call.uncertainty)
            current_call.reset(token)
            call.deadline = None
            del deadline  # breaks a cycle: it holds the task, the task its error, the error this frame


def _left_behind(error: BaseException) -> str | None:
    """Return a note on the thread that a timeout left running, for the model: only coroutines can be cancelled."""
    return STILL_RUNNING if STILL_RUNNING in getattr(error.__cause__, "__notes__", ()) else None


async def _check(checker: ArgumentChecker, arguments: Any) -> CheckedArguments:
    checked = checker.check_if_loaded(arguments)
    if checked is None:
        await run_in_thread(load)
        checked = checker.check(arguments)
    return checked


def _encodable(call: Call, arguments: Any) -> Any:
    """Replace lone halves of surrogate pairs, which no tool can send or store; note it on the call."""
    if is_encodable(arguments):
        return arguments
    call.note("halves of characters in the arguments were replaced: they have no UTF-8 form")
    return scrub_json(arguments)
