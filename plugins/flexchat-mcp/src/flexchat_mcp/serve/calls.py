"""A client's call: run at once, or kept as a turn where it may outlive its request; and what the client gets.

A call is a turn if it has a key, is a task, or may ask a person (approve, asks_first). Another call that asks starts
over as a turn, before it has changed anything.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections import Counter
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any

import attrs
import mcp_types as types
from flexchat import (
    CeilingReachedError,
    ClosedQuestionError,
    FlexChat,
    MediaPart,
    Question,
    Reply,
    RequestedCall,
    Turn,
    UnknownTurnError,
)
from flexchat.host import DEFAULT_TENANT, attached_part, current_call, is_key
from flexchat.plugin import Call, CallSuspended, FlexChatError, ToolDefinition, ToolError, ToolResult
from mcp.shared.exceptions import MCPError

from .catalog import ASK, GET_RESULT, MAX_ATTACHMENTS, Catalog, output_of
from .contents import call_result
from .questions import FORM, can_answer, names_of, reply_of, request_of
from .turns import Ask, Outcome, Progress, Turns, called_result

KEY = "flexchat.dev/idempotency-key"
"""Where in _meta a client puts the key of a call: repeated calls with it are one effect."""

_ATTACHMENT = ("data", "mimeType", "name")

UNANSWERABLE = (
    "the client cannot be asked, and this server keeps no conversations (a table 'conversations' of its "
    "configuration), so that the question cannot wait"
)


@attrs.frozen(kw_only=True)
class Caller:
    """Who calls, and how they can be reached.

    Attributes:
        capabilities: What the client has declared; None if that is unknown.
        key: The key that it gave for this call.
        ask: Asks the client while the call runs; None if its era or its capabilities do not allow that.
        is_remote: Whether a reply to ``ask`` may reach another process.
        report: Reports progress; None if the client does not want that.
    """

    chat: FlexChat
    catalog: Catalog
    tenant: str = DEFAULT_TENANT
    capabilities: types.ClientCapabilities | None = None
    is_modern: bool = True
    key: str | None = None
    ask: Ask | None = None
    is_remote: bool = False
    report: Progress | None = None


class Calls:
    """Runs the calls of all clients."""

    def __init__(self) -> None:
        self.turns = Turns()
        self._running: Counter[str] = Counter()

    async def call(
        self, caller: Caller, name: str, arguments: Mapping[str, Any], state: str | None, responses: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Run a call, or go on with one that was waiting.

        Args:
            state: What the client returns of an earlier result that required input.
            responses: Its responses, by the names of the requests.

        Raises:
            MCPError: There is no such tool, or the state is of another call.
            CeilingReachedError: Too much is under way, or a limit or a budget refuses it before anything runs.
        """
        with self._under_way(caller):
            try:
                return await self._call(caller, name, arguments, state, responses)
            except ToolError as error:
                return {"content": [{"type": "text", "text": str(error)}], "isError": True}

    async def _call(
        self, caller: Caller, name: str, arguments: Mapping[str, Any], state: str | None, responses: Mapping[str, Any]
    ) -> dict[str, Any]:
        if state is not None:
            return await self._resume(caller, state, responses)
        if name == GET_RESULT and caller.catalog.keeps:
            return await self._earlier_result(caller, arguments)
        if name == ASK and ASK in caller.catalog.own():
            return await self._ask(caller, arguments)
        tool = await self.tool(caller, name)
        if caller.catalog.keeps and (caller.key is not None or tool.approve or tool.asks_first):
            return await self._as_turn(caller, tool, arguments)
        try:
            result = await self._call_tool(caller, tool.name, arguments)
        except CallSuspended:
            return await self._as_turn(caller, tool, arguments)
        return call_result(result, output=output_of(tool), is_modern=caller.is_modern)

    async def result(self, caller: Caller, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run the tool behind a prompt or a resource, which need not be offered; a question becomes a CallSuspended.

        Raises:
            CallSuspended: It asks a person.
        """
        with self._under_way(caller):
            return await self._call_tool(caller, name, arguments)

    async def tool(self, caller: Caller, name: str) -> ToolDefinition:
        """Return an offered tool. Raises MCPError."""
        tools = await caller.catalog.tools()
        if name not in tools:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {name[:200]}")
        return tools[name]

    async def submit(self, caller: Caller, tool: str, arguments: Mapping[str, Any]) -> str:
        """Keep a call as a turn that begins later; return the turn's id."""
        return await self._submit(caller, call=RequestedCall(name=tool, arguments=arguments, origin="mcp"))

    async def submit_message(self, caller: Caller, arguments: Mapping[str, Any]) -> str:
        """Keep a message to the chat as a turn that begins later; return the turn's id."""
        message, conversation = arguments.get("message"), arguments.get("conversation")
        if not isinstance(message, str) or not (
            conversation is None or (isinstance(conversation, str) and conversation)
        ):
            raise ToolError("ask takes a message and, to go on with a conversation, its id: texts")
        attachments = _attachments(arguments)
        return await self._submit(caller, message=message, conversation=conversation, attachments=attachments)

    def outcome_result(
        self, caller: Caller, outcome: Outcome, output: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the result of a call whose turn has ended."""
        turn = outcome.turn
        if outcome.status != "done" or turn is None:
            text = outcome.error or ("the call was cancelled" if outcome.status == "cancelled" else "the call failed")
            return {"content": [{"type": "text", "text": caller.chat.mask(text)}], "isError": True}
        if (result := called_result(turn)) is not None:
            return call_result(result, output=output, is_modern=caller.is_modern)
        answer = turn.content if isinstance(turn, Turn) else turn.answer
        structured = {"answer": answer, "conversation": outcome.conversation}
        return {"content": [{"type": "text", "text": answer}], "structuredContent": structured, "isError": False}

    async def _call_tool(self, caller: Caller, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        waits = caller.catalog.keeps and (caller.ask is None or caller.is_remote)

        # Not a coroutine: the task it would run in would turn a CallSuspended into a mere cancellation.
        def on_question(question: Question) -> Awaitable[Reply | None] | Reply:
            call = current_call.get()  # None before the tool has started
            if waits and (call is None or call.can_wait):
                raise CallSuspended(question.id) if call is None else call.suspend(question.id)
            if caller.ask is not None:
                return caller.ask(question)
            return Reply(action="decline", why=_unanswered(caller))

        async def on_progress(call: Call, progress: float, total: float | None, message: str) -> None:
            assert caller.report is not None
            await caller.report(progress, total, message)

        return await caller.chat.call_tool(
            name,
            arguments,
            origin="mcp",
            tenant=caller.tenant,
            on_question=on_question,
            on_progress=on_progress if caller.report is not None else None,
            idempotency_key=caller.key,
        )

    async def _as_turn(self, caller: Caller, tool: ToolDefinition, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return await self._follow(caller, await self.submit(caller, tool.name, arguments), output=output_of(tool))

    async def _ask(self, caller: Caller, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if caller.catalog.keeps:
            return await self._follow(caller, await self.submit_message(caller, arguments), is_chat=True)
        if arguments.get("conversation") is not None:
            raise ToolError("this server keeps no conversations: ask without one")
        if not isinstance(message := arguments.get("message"), str):
            raise ToolError("ask takes a message: a text")
        attachments = _attachments(arguments)
        try:
            turn = await caller.chat.respond(
                message,
                tenant=caller.tenant,
                on_question=caller.ask,
                idempotency_key=caller.key,
                attachments=attachments,
            )
        except CeilingReachedError:
            raise
        except FlexChatError as error:
            return self.outcome_result(caller, Outcome(id="", status="failed", error=str(error)))
        return self.outcome_result(caller, Outcome(id=turn.id, status=turn.status, turn=turn, error=turn.error))

    async def _submit(self, caller: Caller, **what: Any) -> str:
        try:
            return await self.turns.submit(caller.chat, caller.tenant, key=caller.key, **what)
        except CeilingReachedError:
            raise
        except FlexChatError as error:
            raise ToolError(caller.chat.mask(str(error))) from None

    async def _follow(
        self, caller: Caller, id: str, *, output: Mapping[str, Any] | None = None, is_chat: bool = False
    ) -> dict[str, Any]:
        """Wait for a turn; return its result, or what it requires."""
        try:
            outcome = await self.turns.follow(
                caller.chat, caller.tenant, id, ask=caller.ask, report=caller.report, is_chat=is_chat
            )
        except BaseException:
            # Its caller has gone and knows no way back; with a key, it may call again.
            if caller.key is None:
                self.turns.abandon(id)
            raise
        if outcome.open:
            return await self.required(caller, outcome)
        return self.outcome_result(caller, outcome, output)

    async def required(self, caller: Caller, outcome: Outcome) -> dict[str, Any]:
        """Return the requests for a turn's open questions or, for a client that cannot be asked, where to reply.

        Raises:
            MCPError: Only the client could answer, and it has not declared that it can.
        """
        questions = names_of(row.question for row in outcome.open)
        fitting = {name: each for name, each in questions.items() if can_answer(each, caller.capabilities)}
        if caller.is_modern and fitting:
            requests = {name: request_of(each) for name, each in fitting.items()}
            return {
                "resultType": "input_required",
                "inputRequests": requests,
                "requestState": json.dumps({"turn": outcome.id}),
            }
        methods = {request_of(each)["method"] for each in questions.values()}
        if FORM not in methods:  # no person can answer these
            await self.turns.cancel(caller.chat, caller.tenant, outcome.id)
            raise MCPError(
                code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                message=f"this needs a client that supports {', '.join(sorted(methods))}",
                data={"requiredCapabilities": {method.partition("/")[0]: {} for method in methods}},
            )
        texts = "; ".join(each.message for each in questions.values())
        text = (
            f"This call waits for a person's reply, and has not run: {texts}\nThe reply is given in FlexChat (the page "
            f"Approvals, or: flexchat approvals list). Then call the tool {GET_RESULT} with this id for the result: "
            f"{outcome.id}"
        )
        return {"content": [{"type": "text", "text": text}], "isError": True}

    async def _resume(self, caller: Caller, state: str, responses: Mapping[str, Any]) -> dict[str, Any]:
        """Go on with the turn of a state, which has been verified."""
        id = self.turn_in(state)
        await self.reply(caller, id, responses)
        row = await self.turns.row(caller.chat, caller.tenant, id)
        return await self._follow(caller, id, is_chat=not row.conversation.startswith("mcp-call-"))

    @staticmethod
    def turn_in(state: str) -> str:
        """Return the id of the turn in a state."""
        id: str = json.loads(state)["turn"]
        return id

    async def reply(self, caller: Caller, id: str, responses: Mapping[str, Any]) -> None:
        """Record a client's responses to the questions of a turn; those to unknown names are ignored.

        Raises:
            MCPError: A question has had another reply, or there is no such turn.
        """
        try:
            all_questions = await caller.chat.pending(tenant=caller.tenant, turn=id, states=None)
            # The newest first: one that is asked again has the name.
            questions = names_of(row.question for row in sorted(all_questions, key=lambda row: row.state != "open"))
            replies = {
                question.id: reply
                for name, question in questions.items()
                if name in responses and (reply := reply_of(question, responses[name])) is not None
            }
            await self.turns.reply(caller.chat, caller.tenant, id, replies)
        except ClosedQuestionError as error:
            text = f"the question has a reply already, and it is another one: {error}"
            raise MCPError(code=types.INVALID_PARAMS, message=text) from None
        except UnknownTurnError:
            raise MCPError(code=types.INVALID_PARAMS, message="the call is no longer kept: make it again") from None

    async def _earlier_result(self, caller: Caller, arguments: Mapping[str, Any]) -> dict[str, Any]:
        id = arguments.get("call")
        try:
            if not isinstance(id, str):
                raise UnknownTurnError(repr(id))
            row = await self.turns.row(caller.chat, caller.tenant, id)
        except UnknownTurnError:
            raise ToolError("there is no call with this id") from None
        return await self._follow(attrs.evolve(caller, key="kept"), row.id)

    @contextlib.contextmanager
    def _under_way(self, caller: Caller) -> Iterator[None]:
        most = caller.catalog.settings.max_calls
        if self._running[caller.tenant] >= most:
            text = f"{most} calls are under way: wait for one to end (mcp_server.max_calls)"
            raise CeilingReachedError(text, retry_after_s=1)
        self._running[caller.tenant] += 1
        try:
            yield
        finally:
            self._running[caller.tenant] -= 1
            if not self._running[caller.tenant]:
                del self._running[caller.tenant]


def key_of(meta: Mapping[str, Any] | None) -> str | None:
    """Return the key that a client gave for its call. Raises MCPError."""
    key = (meta or {}).get(KEY)
    if key is not None and not (isinstance(key, str) and is_key(key)):
        text = f"_meta: {KEY} must be a text of 1 to 255 printable characters"
        raise MCPError(code=types.INVALID_PARAMS, message=text)
    return key


def _unanswered(caller: Caller) -> str:
    if caller.catalog.keeps:
        return "the tool had already started, and cannot wait for a reply (asks_first)"
    return UNANSWERABLE


def _attachments(arguments: Mapping[str, Any]) -> tuple[MediaPart, ...]:
    """Return the attachments that a client hands to the chat. Raises ToolError: One cannot be sent to a model."""
    entries = arguments.get("attachments") or []
    if not isinstance(entries, list) or len(entries) > MAX_ATTACHMENTS:
        raise ToolError(f"attachments is a list of up to {MAX_ATTACHMENTS} objects with data, mimeType and name")
    parts = []
    for at, entry in enumerate(entries):
        fields = {name: entry.get(name) for name in _ATTACHMENT} if isinstance(entry, Mapping) else {}
        if not fields or entry.keys() - fields.keys() or not all(isinstance(e, str | None) for e in fields.values()):
            raise ToolError(f"attachments[{at}] is an object with the texts data, mimeType and name")
        try:
            data = base64.b64decode(fields["data"] or "", validate=True)
            parts.append(attached_part(data, name=fields["name"], declared=fields["mimeType"] or ""))
        except binascii.Error:
            raise ToolError(f"attachments[{at}].data is not in Base64") from None
        except ValueError as error:
            raise ToolError(f"attachments[{at}]: {error}") from None
    return tuple(parts)
