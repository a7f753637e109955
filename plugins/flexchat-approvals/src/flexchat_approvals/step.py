"""The step that asks a person about calls, as the policies of a chat's config require."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, ClassVar

import attrs
from flexchat import FlexChat
from flexchat.host import NOBODY, Mask, PluginHost, contained, is_stand_in
from flexchat.plugin import AppInfo, Call, FlexChatError, Reply, Rest, Stage, Step, ToolResult, hookimpl
from flexchat.store import PendingQuestion

from .policies import Policy, find_policy, label
from .questions import approves, counts_again, edited_arguments, keys_of, message_of, schema_of
from .reviewing import review

log = logging.getLogger(__name__)

BEFORE_APPROVAL = "flexchat_before_approval"

CHANGED = "A person has changed the arguments of this call to"

MAX_QUESTIONS = 2_000  # of one turn


@attrs.frozen
class _Decision:
    """What decided about a call in a person's place."""

    is_approved: bool
    by: str
    reason: str = ""


@attrs.define(eq=False)
class ApprovalStep:
    """Asks a person about the calls that a policy is about; only a yes to this very call lets it run.

    Attributes:
        policies: In order: the first that is about a call decides.
        plugins: Those that may decide in a person's place.
        chat: Whose calls they are; None until it is opened.
    """

    name: ClassVar[str] = "approvals"
    stage: ClassVar[Stage] = "approve"
    policies: Sequence[Policy]
    plugins: PluginHost
    chat: FlexChat | None = None

    @hookimpl
    def flexchat_register_steps(self) -> Iterable[Step]:
        """Register this as a step of the chat's calls."""
        yield self

    @hookimpl
    def flexchat_app_opened(self, app: AppInfo) -> None:
        """Keep the chat, which has the replies that count again, and the reviewers."""
        self.chat = app.chat

    def __call__(self, call: Call, rest: Rest) -> Coroutine[Any, Any, ToolResult]:
        """Let a call that has an approval pass straight through, and one whose tool does not really run."""
        assert call.tool is not None
        return rest() if call.is_approved or is_stand_in(call.tool) else self._decide(call, rest)

    async def _decide(self, call: Call, rest: Rest) -> ToolResult:
        index = await find_policy(self.policies, call, self._wire_name(call))
        is_free = index is None or self.policies[index].ask == "never"
        # A call that was claimed may have taken effect, with the approval of an earlier run: the ledger decides.
        is_asked = not call.is_new or bool(call.restarts)
        if (is_free and not is_asked) or await call.was_claimed():
            return await rest()
        # A person's decision about this call stands, even if the policy has changed or another approval counts since.
        for row in await self._replies(call) if is_asked else []:
            assert row.reply is not None
            if row.reply.action == "decline":
                return _rejected(call, row.replied_by, row.reply.why)
            edited = edited_arguments(row.reply.content, call, self._mask) if is_free else None
            if edited is not None:
                return await self._again(call, edited)
            if is_free and approves(row, call, self._mask):
                call.is_approved = True
                break  # these are what the last edit brought; earlier ones led up to it
        if index is None or is_free:
            return await rest()
        policy, keys = self.policies[index], keys_of(call, self.policies[index])
        own_row = None if call.is_new else await self._row(call, policy)
        # A reply to this very call counts before one to another.
        is_open = own_row is None or own_row.state == "open"
        earlier = await self._remembered(call, keys) if is_open else None
        if earlier is not None:
            call.note(f"approved: {earlier.replied_by or 'the user'} has approved such calls at {earlier.replied_at}")
            call.is_approved = True
            return await rest()
        # What was decided before a person was asked, before a crash, is not decided again.
        decision = None if own_row is not None else await self._decision(call, policy)
        if decision is not None and not decision.is_approved:
            return _rejected(call, decision.by, decision.reason)
        if decision is not None:
            call.note(f"approved by {decision.by}" + (f": {decision.reason}" if decision.reason else ""))
            call.facts["approvals"] = {"policy": label(self.policies, index), "by": decision.by}
            call.is_approved = True
            return await rest()
        return await self._ask(call, rest, index, keys)

    async def _ask(self, call: Call, rest: Rest, index: int, keys: dict[str, str]) -> ToolResult:
        policy, mask, tool = self.policies[index], self._mask, call.tool
        assert tool is not None
        details = {
            "tool": call.name,
            "source": tool.source or "",
            "rule": None if call.rule is None else call.rule[1] or str(call.rule[0]),
            "arguments": mask.data(call.arguments),
            "effect": tool.effect,
            "policy": label(self.policies, index),
            "origin": call.origin,
        }
        reply = await call.ask(
            message_of(call, mask),
            schema_of(tool.parameters),
            digest=call.approval_digest(policy.to_data()),
            details=details,
            remember=keys if call.turn.conversation is not None else {},
            expires_s=policy.expires_s,
        )
        if reply.action != "accept":
            return await self._refusal(call, reply, policy)
        edited = edited_arguments(reply.content, call, mask)
        if edited is not None:
            return await self._again(call, edited)
        note = reply.content.get("note")
        call.note(f"approved ({label(self.policies, index)})" + (f": {note}" if note else ""))
        call.is_approved = True
        return await rest()

    async def _again(self, call: Call, edited: dict[str, Any]) -> ToolResult:
        """Start over with a person's arguments: all checks again, this one included, since it is another call."""
        call.note("a person has changed the arguments")
        result = await call.again(edited)
        if CHANGED in (result.hint or ""):  # by a later question
            return result
        # The model reads its own arguments beside the result, and would report those.
        arguments_text = json.dumps(self._mask.data(call.arguments), ensure_ascii=False)
        hint = f"{CHANGED}: {arguments_text}"
        return attrs.evolve(result, hint=f"{result.hint}; {hint}" if result.hint else hint)

    async def _refusal(self, call: Call, reply: Reply, policy: Policy) -> ToolResult:
        if reply.action == "decline" and reply.why != NOBODY:
            row = await self._row(call, policy)
            return _rejected(call, row.replied_by if row is not None else "", reply.why)
        text = f"Not executed: a person must approve '{call.name}', and nobody approved this call"
        return ToolResult.failed(call.name, text, hint=reply.why or "the question was closed without an answer")

    async def _decision(self, call: Call, policy: Policy) -> _Decision | None:
        """Return the decision of plugins or of the reviewer; None if they leave the call to a person."""
        assert call.tool is not None
        approving = None
        for plugin, answer in await self._answers(call, policy):
            if answer is False or isinstance(answer, str):
                return _Decision(False, plugin, answer or "")
            if answer is True and plugin == policy.plugin:
                approving = _Decision(True, plugin)
            elif answer is not None:
                log.warning("plugin %s: its answer to %s does not count: %r", plugin, BEFORE_APPROVAL, answer)
        if approving is not None or policy.reviewer is None or self.chat is None:
            return approving
        verdict = await review(self.chat, policy, call, self._mask)
        if verdict is None or verdict.decision == "leave to a person":
            return None
        return _Decision(verdict.decision == "approve", f"the reviewer {policy.reviewer}", verdict.reason)

    async def _answers(self, call: Call, policy: Policy) -> list[tuple[str, Any]]:
        """Ask the plugins; one that fails has no answer."""
        answers: list[tuple[str, Any]] = []
        try:
            plugin_answers = self.plugins.ask(BEFORE_APPROVAL, call=call, policy=policy)
        except FlexChatError:  # in strict mode, one that fails
            log.exception("%s failed; a person decides", BEFORE_APPROVAL)
            return answers
        for plugin, answer in plugin_answers:
            try:
                with contained():
                    answers.append((plugin, await answer if inspect.isawaitable(answer) else answer))
            except Exception:
                log.exception("plugin %s: %s failed; a person decides", plugin, BEFORE_APPROVAL)
        return answers

    async def _remembered(self, call: Call, keys: dict[str, str]) -> PendingQuestion | None:
        """Return the newest approval that counts again for this call."""
        journal = self.chat.journal if self.chat is not None else None
        if journal is None:
            return None
        for key in keys.values():
            try:
                rows = await journal.questions(tenant=call.turn.tenant, remembered=key, limit=1)
            except FlexChatError as error:
                log.warning("replies that count again cannot be read: %s", error)
                return None
            if rows and counts_again(rows[0]):
                return rows[0]
        return None

    async def _replies(self, call: Call) -> list[PendingQuestion]:
        """Return the questions about a call of the model that have a reply, the newest first."""
        rows = [row for row in await self._questions(call) if row.question.call_id == call.id and row.question.digest]
        return [row for row in rows if row.reply is not None]

    async def _row(self, call: Call, policy: Policy) -> PendingQuestion | None:
        """Return the newest kept question about this very call; None if there is none."""
        digest = call.approval_digest(policy.to_data())
        return next((row for row in await self._questions(call) if row.question.digest == digest), None)

    async def _questions(self, call: Call) -> Sequence[PendingQuestion]:
        """Return the kept questions of a call's turn, the newest first. Raises StorageError."""
        journal = self.chat.journal if self.chat is not None else None
        if journal is None or call.turn.conversation is None:
            return ()
        return await journal.questions(tenant=call.turn.tenant, turn=call.turn.id, limit=MAX_QUESTIONS)

    @property
    def _mask(self) -> Mask:
        return self.chat.mask if self.chat is not None else Mask()

    def _wire_name(self, call: Call) -> str | None:
        """Return the name under which models are shown the call's tool."""
        if call.offer is not None:
            return call.offer.wire_name(call.name)
        return self.chat.tools.get_registry().wire_name(call.name) if self.chat is not None else None


def _rejected(call: Call, by: str, reason: str) -> ToolResult:
    whom = f"rejected by {by}" if by else f"the user did not approve this call of '{call.name}'"
    return ToolResult.failed(call.name, f"Not executed: {whom}" + (f": {reason}" if reason else ""))
