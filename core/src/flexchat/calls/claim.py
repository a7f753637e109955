"""The step that makes an effect happen only once: claimed in the ledger before its tool runs, finished after."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Coroutine
from typing import Any, ClassVar, Literal

import attrs

from ..conversations.effect_rows import EndState, claimed_anew, time_text
from ..conversations.memory_ledger import NewEffect, Row
from ..domain import Claim, Effect, EffectCall, ToolDefinition, ToolResult, TurnInfo
from ..domain.conversation import result_from_json, result_to_json
from ..domain.effects import MAX_ARGUMENTS_CHARS, MAX_HANDLE_CHARS, MAX_RESULT_CHARS, arguments_digest, effect_key
from ..domain.masking import Mask
from ..domain.media import describe_media
from ..errors import EffectUnknownError, StorageError, UnknownEffectError
from ..plugin.call import Call, Rest, Stage
from ..plugin.foreign import CallSuspended
from ..schema.check import is_small
from ..tools.registry import ToolRegistry
from ..tools.results import shortened
from .effects import Effects
from .outcomes import Outcomes, doubt, nothing_done

STORED_RESULT = "the stored result of an earlier call"
"""The note on a result for which nothing ran now."""

_DO_NOT_REPEAT = "Do not call it again for the same purpose; tell the user, who can check"
_UNANSWERED = "it was waiting for a reply, and had changed nothing"
_WHERE = "flexchat effects list --unknown"
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.02, 0.5
_MAX_WAITING_CHARS = 2_000


@attrs.frozen
class ClaimEffect:
    """Makes an effect happen only once; a new call of a tool that changes nothing passes straight through.

    One that may have been made before, as in a resumed turn, follows the row that it left when its tool was a write.

    Attributes:
        default_timeout_ms: How long a call waits for the one before it, if the tool has no timeout of its own.
    """

    name: ClassVar[str] = "claim"
    stage: ClassVar[Stage] = "claim"
    effects: Effects
    registry: ToolRegistry
    outcomes: Outcomes
    mask: Mask
    default_timeout_ms: int

    def __call__(self, call: Call, rest: Rest) -> Coroutine[Any, Any, ToolResult]:
        """Set call.claimed."""
        assert call.tool is not None
        if call.tool.effect == "write":
            local = self.effects.local
            # In memory, nothing but this process can claim the effect, and this call cannot have been made before.
            if call.is_new and local is not None and call.claimed is None and call.approval is None:
                row = NewEffect(local, call.turn, call.path, call.tool, call.arguments, self._write_out)
                if local.begin(row):
                    return self._run_claimed(call, rest, row)
            return self._run_once(call, rest)
        if call.approval is not None:
            return self._run_approved(call, rest)
        return rest() if call.is_new else self._follow_row(call, rest)

    async def _run_approved(self, call: Call, rest: Rest) -> ToolResult:
        """Use up the approval of a call that claims nothing: it lets one run of the tool happen."""
        approval, call.approval = call.approval, None
        assert approval is not None
        try:
            if not await self.effects.use_approval(approval, call.turn.tenant, f"{call.turn.id} {call.path}"):
                return self._unapproved(call)
        except StorageError as error:
            text = f"Not executed: the approval of this call of '{call.name}' could not be used"
            return ToolResult.failed(call.name, text, hint=self.mask(error.public_text))
        return await rest() if call.is_new else await self._follow_row(call, rest)

    @staticmethod
    def _unapproved(call: Call) -> ToolResult:
        text = f"Not executed: the approval of this call of '{call.name}' is not valid, or was used before"
        return ToolResult.failed(call.name, text)

    async def _follow_row(self, call: Call, rest: Rest) -> ToolResult:
        """Follow the row that an earlier run of this very call has left, even if the tool is no longer a write."""
        try:
            effect = await self._row(call)
        except StorageError as error:
            return self._refuse_unrecorded(call, error)
        if effect is None or not (effect.owner or effect.state == "pending"):
            # No row, or a released one: the tool was never started as a write, so there is nothing to protect.
            return await rest()
        assert call.tool is not None
        call.tool = attrs.evolve(call.tool, effect="write")  # for retries and for the record of the turn
        return await self._run_once(call, rest)

    async def _run_once(self, call: Call, rest: Rest) -> ToolResult:
        effect_call = self._describe_call(call)
        try:
            claim = await self._claim_or_wait(call, effect_call)
        except StorageError as error:
            return self._refuse_unrecorded(call, error)
        call.claimed, effect = effect_call, claim.effect
        match claim.outcome:
            case "yours":
                return await self._run_claimed(call, rest, effect)
            case "lost":
                return await self._recover_lost(call, rest, effect_call, effect)
            case "unapproved":
                call.claimed = None
                return self._unapproved(call)
            case "ended" if effect.state == "unknown" and self._may_ask_again(call, effect):
                return await self._recover_lost(call, rest, effect_call, effect)
            case "ended":
                return self._earlier_outcome(call, effect)
            case "running":
                is_ours = effect.owner == self.effects.owner
                starter = "an earlier call with the same key" if is_ours else "another process"
                text = f"Not executed: this very call of '{call.name}' is still running, started by {starter}"
                return ToolResult.failed(call.name, text, hint="ask again when it has ended")
        text = f"Not executed: this place of the turn has been used for another call, of '{effect.tool}'"
        if not call.turn.id:
            text = f"Not executed: this key has been used for another call, of '{effect.tool}'"
        return ToolResult.failed(call.name, text, hint="a key stands for one tool with one set of arguments")

    async def recalled(self, call: Call) -> ToolResult | None:
        """Return the recorded outcome of a call that must not run any more; None if its effect was never claimed.

        Raises StorageError.
        """
        effect = await self._row(call)
        if effect is None or (effect.state == "pending" and await self._end_pending(effect)):
            return None
        was_asking = effect.state == "claimed" and call.asked is not None and call.asked.was_asking(call.path)
        if was_asking and await self.effects.ledger.release(effect.key, effect.fence, note=_UNANSWERED):
            return None
        if effect.state in ("claimed", "pending"):
            # This call will not run again to finish its claim, and its owner may be dead: that is unknown, not
            # "running".
            effect = attrs.evolve(effect, state="unknown")
        return self._earlier_outcome(call, effect)

    async def _end_pending(self, effect: Effect) -> bool:
        """End the effect of a call that was waiting for a reply, and does not run any more.

        Returns whether it has changed nothing: what became of a job that it had started is unknown.
        """
        fields = (field.name for field in attrs.fields(EffectCall))
        claim = await self.effects.claim(EffectCall(**{name: getattr(effect, name) for name in fields}))
        if claim.outcome == "yours" and effect.handle is None:
            await self.effects.release(claim.effect, _UNANSWERED)
        elif claim.outcome == "yours":
            await self.effects.finish(claim.effect, "unknown", None, f"{_UNANSWERED}, but it had started a job")
        return effect.handle is None

    async def was_claimed(self, call: Call) -> bool:
        """Return whether this very call was claimed before: it has been approved, and the ledger decides about it."""
        if call.is_new:
            # A place that has just been made up cannot have been approved before.
            return False
        try:
            effect = await self._row(call)
        except StorageError:
            # Unreadable means asking the person again, not running again: the claim that follows needs the ledger.
            return False
        return effect is not None and bool(effect.owner) and effect.digest == _digest_of(call)

    async def made_before(self, call: Call) -> ToolResult | None:
        """Return the outcome of an earlier run of a call that was refused now; None if its tool was never started.

        Raises StorageError.
        """
        effect = await self._row(call)
        is_of_model = call.parent is None and bool(call.turn.id and call.iteration)  # its answer is kept: the same call
        if effect is None or not (effect.owner or effect.state == "pending"):
            return None
        if not (is_of_model or effect.digest == _digest_of(call)):
            return None
        return await self.recalled(call)

    async def _row(self, call: Call) -> Effect | None:
        turn = call.turn
        key = effect_key(turn.tenant, turn.conversation, turn.id, call.path)
        with contextlib.suppress(UnknownEffectError):
            return await self.effects.ledger.get(key, tenant=turn.tenant)
        return None

    @staticmethod
    def _may_ask_again(call: Call, effect: Effect) -> bool:
        """Return whether running the tool again may clear up an unknown effect and cannot double it."""
        assert call.tool is not None
        return effect.handle is not None or (effect.honours_key and call.tool.honours_key)

    async def _claim_or_wait(self, call: Call, effect_call: EffectCall) -> Claim:
        """Claim the effect; while another call of it runs, wait until that ends or its owner's lease expires."""
        # Polled, because the earlier call may run in another process, or its owner may have died without a word. The
        # pause grows: most calls end soon, and the others should not load the ledger.
        until, pause = time.monotonic() + self._patience_s(call), _FIRST_PAUSE_S
        while True:
            claim = await self.effects.claim(effect_call, approval=call.approval)
            if claim.outcome != "running" or time.monotonic() + pause > until:
                return claim
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_S)

    def _patience_s(self, call: Call) -> float:
        assert call.tool is not None
        # At least one lease: if the owner has died, its claim counts as lost by then, and this call can recover it.
        patience = max((call.tool.timeout_ms or self.default_timeout_ms) / 1000, self.effects.lease_s + 1)
        left_s = call.seconds_left() if call.seconds_left is not None else None
        return patience if left_s is None else min(patience, left_s)

    async def _run_claimed(self, call: Call, rest: Rest, effect: Row, *, earlier: str = "") -> ToolResult:
        """Run the tool, and record the outcome before reporting it.

        ``earlier`` is why an earlier attempt may have taken effect: then any outcome but a success stays unknown.
        """
        if not self.effects.is_held():  # the process was suspended for so long that another may have taken over
            suspended_error = "Not executed: the process stood still before the tool was started"
            return await self._release_unstarted(call, effect, ToolResult.failed(call.name, suspended_error), earlier)
        call.claimed = effect
        # Set before the tool starts: its thread may finish at any moment, even after the wait for it has ended.
        call.on_late_result = lambda value, error: self._record_late_result(effect, value, error)
        call.handle, call.remember = effect.handle, lambda handle: self._remember(call, effect, handle)
        # Nothing is certain of the earlier attempt, so this one cannot begin anew as if there had been none.
        call.may_have_acted = call.may_have_acted or (bool(earlier) and effect.handle is None)
        try:
            result = await rest()
        except CallSuspended:
            # Without its record, the row stays claimed until the write is retried, and the next run waits for it.
            with contextlib.suppress(StorageError):
                is_pending = call.has_started or call.handle is not None
                await self.effects.release(effect, "it waits for the reply to a question", is_pending=is_pending)
            raise
        # Recorded before the error travels on: a cancellation may be the last thing this process handles.
        except BaseException as error:
            when = "while the tool was running" if call.has_started else "before the tool was started"
            cancelled = f"the {'turn' if call.turn.id else 'call'} was cancelled {when}"
            why = cancelled if isinstance(error, asyncio.CancelledError) else repr(error)
            acted = call.may_have_acted or (call.has_started and not nothing_done(error)) or call.handle is not None
            await self._record_interruption(effect, why, may_have_acted=acted or bool(earlier))
            if not acted and not earlier:  # for the record of the turn: as if it had not been started
                call.has_started, call.begun_effect = False, None
            raise
        if not call.has_started:
            return await self._release_unstarted(call, effect, result, earlier)
        is_answer = effect.handle is not None and call.has_reported_failure  # of the job that the earlier call started
        is_done = result.success or call.has_returned
        # A plain failure proves only that this attempt did nothing. The earlier one may have acted, unless the tool has
        # asked about the job of that one.
        if not is_done and not call.uncertainty and not is_answer:
            call.uncertainty = earlier
        if call.uncertainty:
            return await self._finish(call, effect, "unknown", self._mark_unknown(call, result))
        return await self._finish(call, effect, "done" if is_done else "failed", result)

    async def _remember(self, call: Call, effect: Row, handle: Any) -> None:
        """Keep a tool's handle of a job that it has started: on disk when this returns, or an EffectUnknownError."""
        # The job runs by now. Without its handle on disk a later call could not ask about it, so each failure below
        # makes the effect unknown instead of failed.
        try:
            text = json.dumps(handle, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise EffectUnknownError(f"its handle is not JSON data: {error}") from None
        if handle is None or len(text) > MAX_HANDLE_CHARS:
            what = "is empty" if handle is None else f"is {len(text):,} characters long, more than {MAX_HANDLE_CHARS:,}"
            raise EffectUnknownError(f"its handle cannot be kept: it {what}")
        try:
            if not await self.effects.remember(effect, text):
                raise EffectUnknownError("another process has taken this call over, or somebody has settled it")
        except StorageError as error:
            raise EffectUnknownError(f"its handle could not be recorded: {error.public_text}") from error
        call.handle = text

    async def _release_unstarted(self, call: Call, effect: Row, result: ToolResult, earlier: str) -> ToolResult:
        """Give back the claim of a call that was refused further inside, if no earlier attempt can have acted."""
        # That this attempt was refused is no evidence about the earlier one.
        if earlier:
            call.uncertainty = earlier
            return await self._finish(call, effect, "unknown", self._mark_unknown(call, result))
        call.claimed = None
        try:
            await self.effects.release(effect, self.mask(result.error or "a plugin answered in its place"))
        except StorageError as error:
            call.note(f"it could not be recorded yet that the tool was not started: {error.public_text}")
        return result

    async def _record_interruption(self, effect: Row, why: str, *, may_have_acted: bool) -> None:
        # Its write is retried; at worst the row counts as lost, which is as good as unknown.
        with contextlib.suppress(StorageError):
            if may_have_acted:
                await self.effects.finish(effect, "unknown", None, why)
            else:
                await self.effects.release(effect, why)

    async def _finish(self, call: Call, effect: Row, state: EndState, result: ToolResult) -> ToolResult:
        if (
            isinstance(effect, NewEffect)
            and state != "unknown"
            and _is_small(effect, result)
            and self.effects.end_new(effect, state, result)
        ):
            return result
        note = self.mask(call.uncertainty) if call.uncertainty else ""
        try:
            stored = None if state == "unknown" else self._stored_text(result)
            if not await self.effects.finish(effect, state, stored, note):
                call.note(f"effect {effect.key[:8]}: another process has taken it over, or somebody has settled it")
            return result
        except StorageError as error:
            # A failure may be reported without a record: after a crash the effect counts as unknown, which claims less.
            # A success must not: the conversation would contradict the ledger.
            if state != "done":
                call.note(f"the outcome of the effect could not be recorded yet: {error.public_text}")
                return result
            call.facts["effect"] = {"key": effect.key, "state": "done"}
            text = f"'{call.name}' took effect, but that could not be recorded, so its result is withheld"
            return ToolResult.failed(call.name, text, hint=f"{error.public_text}. {_DO_NOT_REPEAT}")

    def _record_late_result(self, effect: Row, value: Any, error: BaseException | None) -> None:
        """Record the outcome of a thread that finished after its time had run out."""
        if error is None:
            # Closed without running: its body belongs on the event loop, where the call has ended.
            if asyncio.iscoroutine(value):
                value.close()
                return
            result = self.outcomes.of_late(effect.tool, value)
            state: Literal["done", "failed"] = "done"
        # It stays unknown, as recorded when the time ran out.
        elif doubt(error):
            return
        else:
            result, state = self.outcomes.of_error(effect.tool, error), "failed"
        self.effects.finish_late(effect, state, self._stored_text(result))

    async def _recover_lost(self, call: Call, rest: Rest, effect_call: EffectCall, lost: Effect) -> ToolResult:
        """Recover a claim whose owner died, or recorded it as unknown: its tool may or may not have taken effect."""
        tool = call.tool
        assert tool is not None
        was_asking = call.asked is not None and call.asked.was_asking(call.path)
        try:
            if not was_asking and not self._may_ask_again(call, lost) and tool.verify is None:
                why = "the process that ran it has died"
                # Written with the lost claim's fence: if its owner lives after all, or another process was faster, this
                # changes nothing, and the row is read again.
                await self.effects.ledger.finish(lost.key, lost.fence, state="unknown", result=None, note=why)
                return await self._run_once(call, rest)
            # Taking over raises the fence, so that an owner that was only suspended can no longer write to the row.
            claim = await self.effects.claim(effect_call, take_over=True)
        except StorageError as error:
            return self._refuse_unrecorded(call, error)
        if claim.outcome != "yours":  # another process was faster
            return await self._run_once(call, rest)
        # The strongest evidence first: the job itself, then the target's own memory of the key, then ``verify``.
        if claim.effect.handle is not None:
            call.note("an earlier call broke off: the tool asks about the job that it started")
            earlier = "an earlier call broke off, and the job that it started could not be asked about"
            return await self._run_claimed(call, rest, claim.effect, earlier=earlier)
        if was_asking:
            call.note("an earlier call broke off while it was waiting for a reply, before it had changed anything")
            return await self._run_claimed(call, rest, claim.effect)
        if lost.honours_key and tool.honours_key:
            call.note("an earlier call broke off: it is made again, with the same key")
            earlier = "an earlier call broke off, and making it again with the same key failed"
            return await self._run_claimed(call, rest, claim.effect, earlier=earlier)
        return await self._run_if_unverified(call, rest, claim.effect)

    async def _run_if_unverified(self, call: Call, rest: Rest, effect: Effect) -> ToolResult:
        """Ask the tool's ``verify`` whether an earlier call took effect; run the tool if it did not."""
        assert call.tool is not None
        assert call.tool.verify is not None
        assert call.runner is not None
        name = call.tool.verify
        tool = self.registry.get(name, beside=call.tool)
        accepted = tool.parameters.get("properties", {}) if tool is not None else {}
        arguments = {key: value for key, value in call.arguments.items() if key in accepted}
        if "key" in accepted:
            arguments["key"] = call.key
        try:
            # A path of its own: under the same path, the question would claim the effect that it is about.
            asking = call.child(name, arguments, path=f"{call.path}/verify", tool=tool)
            asking.approve = False  # the call it asks about has been approved, and this one is FlexChat's own
            answer = await call.runner.run(asking)
        except BaseException:
            # The claim is ours by now. Released, it would look as if the tool had never run.
            why = f"an earlier call broke off, and {name} had not said yet whether it took effect"
            await self._record_interruption(effect, why, may_have_acted=True)
            raise
        verdict = answer.result if answer.success and isinstance(answer.result, dict) else {}
        # Only a literal true or false decides. Any other answer leaves the effect unknown.
        done = verdict.get("done")
        if done is False:
            call.note(f"an earlier call broke off: {name} says that it did not take effect, so it is made again")
            return await self._run_claimed(call, rest, effect)
        if done is True:
            call.note(f"an earlier call broke off: {name} says that it took effect")
            result = ToolResult(success=True, tool_name=call.name, result=verdict.get("result", {"done": True}))
            return await self._finish(call, effect, "done", result)
        call.uncertainty = f"an earlier call broke off, and {name} cannot tell"
        return await self._finish(call, effect, "unknown", self._unknown(call, call.uncertainty, effect))

    def _earlier_outcome(self, call: Call, effect: Effect) -> ToolResult:
        call.facts["effect"] = {"key": effect.key, "state": effect.state}
        if effect.state == "unknown":
            return self._unknown(call, effect.note or "the call broke off", effect)
        call.note(STORED_RESULT)
        if effect.result is not None:
            return result_from_json(effect.result)
        why = f"settled by {effect.settled_by}" if effect.settled_by else "its result is no longer kept"
        if effect.note:
            why += f": {effect.note}"
        if effect.state == "done":
            return ToolResult(success=True, tool_name=call.name, result={"done": True, "note": why})
        return ToolResult.failed(call.name, f"'{call.name}' did not take effect ({why})")

    def _unknown(self, call: Call, why: str, effect: Effect) -> ToolResult:
        call.facts["effect"] = {"key": effect.key, "state": "unknown"}
        text = f"It is unknown whether '{call.name}' took effect: {why}. {_DO_NOT_REPEAT}."
        hint = _WHERE if self.effects.is_kept else None
        return ToolResult(success=False, tool_name=call.name, error=text, hint=hint, is_unknown=True)

    def _mark_unknown(self, call: Call, result: ToolResult) -> ToolResult:
        """Return the failure of a tool that has just broken off: its own text, which may be specified, and advice."""
        call.facts["effect"] = {"key": call.key, "state": "unknown"}
        call.note("the effect is unknown" + (f": {_WHERE}" if self.effects.is_kept else ""))
        advice = f"it is unknown whether '{call.name}' took effect. {_DO_NOT_REPEAT}"
        return attrs.evolve(result, hint=f"{result.hint}; {advice}" if result.hint else advice, is_unknown=True)

    def _refuse_unrecorded(self, call: Call, error: StorageError) -> ToolResult:
        call.claimed = None
        text = f"Not executed: '{call.name}' changes something, and its start could not be recorded"
        return ToolResult.failed(call.name, text, hint=self.mask(error.public_text))

    def _describe_call(self, call: Call) -> EffectCall:
        assert call.tool is not None
        return self._describe(call.turn, call.path, call.tool, call.arguments)

    def _describe(self, turn: TurnInfo, place: str, tool: ToolDefinition, arguments: Any) -> EffectCall:
        text = json.dumps(self.mask.data(arguments), ensure_ascii=False, default=repr)
        return EffectCall(
            key=effect_key(turn.tenant, turn.conversation, turn.id, place),
            tenant=turn.tenant,
            conversation=turn.conversation,
            turn=turn.id,
            place=place,
            tool=tool.name,
            digest=digest_of(tool.name, tool.source, arguments),
            honours_key=tool.honours_key,
            arguments=text if len(text) <= MAX_ARGUMENTS_CHARS else text[: MAX_ARGUMENTS_CHARS - 1] + "…",
        )

    def _write_out(self, row: NewEffect) -> Effect:
        call = self._describe(row.turn, row.place, row.definition, row.arguments)
        effect = claimed_anew(call, None, self.effects.owner, time_text(row.started_at))
        if row.result is None:
            return effect
        return attrs.evolve(
            effect, state=row.state, result=self._stored_text(row.result), ended_at=time_text(row.ended_at)
        )

    def _stored_text(self, result: ToolResult) -> str:
        """Return a result as the ledger keeps it: without secrets, and cut to size."""
        # As Base64, large media alone are longer than what the ledger keeps.
        if sum([len(part.data or b"") for part in result.media]) * 4 // 3 > MAX_RESULT_CHARS:
            result = _without_media(result)
        text = result_to_json(result)
        if self.mask(text) != text:
            result = attrs.evolve(result, result=self.mask.data(result.result), encoded=None)
            text = result_to_json(result)
        # Media go first: a text that is whole serves a resumed turn better than a text cut short.
        if len(text) > MAX_RESULT_CHARS and result.media:
            result = _without_media(result)
            text = result_to_json(result)
        if len(text) > MAX_RESULT_CHARS:
            text = result_to_json(shortened(result, MAX_RESULT_CHARS // 2))
        return text


@attrs.frozen
class Recall:
    """Answers a call that is refused now as the ledger does, if an earlier run of it started the tool.

    Between a crash and the resumption, its tool may have gone, its schema or a gate may have changed. What it did is
    still done.
    """

    name: ClassVar[str] = "recall"
    stage: ClassVar[Stage] = "report"
    claim: ClaimEffect

    async def __call__(self, call: Call, rest: Rest) -> ToolResult:
        """Look only if the call did not get as far as the ledger."""
        result = await rest()
        if call.is_new or call.has_started or call.claimed is not None:
            return result
        try:
            return await self.claim.made_before(call) or result
        except StorageError as error:
            call.note(f"whether an earlier run of this call took effect cannot be read: {error}")
            return result


def _digest_of(call: Call) -> str:
    return digest_of(call.name, call.tool.source if call.tool is not None else None, call.arguments)


def digest_of(name: str, source: str | None, arguments: Any) -> str:
    """Return 64 hexadecimal digits that are equal for equal calls of a tool, also with arguments that are not JSON."""
    name = f"{source} {name}" if source else name  # the same name in another source is another tool
    try:
        return arguments_digest(name, arguments)
    except ValueError:  # given in code, and not expressible in JSON
        return arguments_digest(name, repr(arguments))


def _is_small(effect: NewEffect, result: ToolResult) -> bool:
    """Return whether a row may wait to be written out: until then it holds arguments and result as they are."""
    text = result.encoded if result.success else result.error
    return text is not None and len(text) <= _MAX_WAITING_CHARS and not result.media and is_small(effect.arguments)


def _without_media(result: ToolResult) -> ToolResult:
    words = [f"{describe_media(part)}: it was there, but is no longer kept" for part in result.media]
    return attrs.evolve(result, media=(), left_out=(*result.left_out, *words))
