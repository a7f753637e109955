"""The turn and the tool call that foreign code runs in, and the protocol of the steps a call goes through.

Core's steps: flexchat/calls/steps.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import attrs

from ..domain import DEFAULT_TENANT, Principal, RetrievalHits, ToolDefinition, ToolResult, TurnInfo, new_call_id
from ..domain.effects import arguments_digest
from ..domain.messages import Message
from ..domain.questions import NOBODY, Approval, Question, Reply
from ..domain.tracing import is_traceparent, new_traceparent, usable_tracestate
from ..errors import did_you_mean
from .foreign import CallSuspended


@attrs.frozen(kw_only=True)
class EarlierResult:
    """The whole result of a tool call, of which the model may have been shown a part.

    Attributes:
        tool: Whose result it is.
        text: The whole of which the model was shown head and tail: a text unchanged, any other value as JSON; of a
            failure, the error and, on the next line, its hint.
        max_chars: How much of one result a model is shown, in characters of JSON: tools.max_result_chars.
    """

    tool: str
    text: str
    max_chars: int


@attrs.frozen
class Cited:
    """Passages found by a tool."""

    tool: str
    store: str
    hits: RetrievalHits


class RunningTurn(Protocol):
    """The running turn, as far as plugins need it.

    Attributes:
        cited: What tools cited with ToolContext.cite, so that the turn can name its sources.
        is_interrupted: Whether it is being stopped so that it goes on later.
        root: Its info, or that of the outermost turn whose tool started it.
        messages: Its conversation so far: an answer with calls once they have their results.
    """

    info: TurnInfo
    cited: list[Cited]
    is_interrupted: bool

    @property
    def root(self) -> TurnInfo: ...  # noqa: D102

    @property
    def messages(self) -> Sequence[Message]: ...  # noqa: D102

    async def earlier_result(self, call_id: str) -> EarlierResult | None:
        """Return the result of a call that the turn's model was shown; None if there is none."""

    def deferred_tools(self) -> Mapping[str, ToolDefinition]:
        """Return the deferred tools, by the names that the model calls them by."""


@attrs.define
class EndedTurn:
    """What code that outlives a turn may know of it: its messages, and the media in them, are not kept for that."""

    info: TurnInfo
    root: TurnInfo
    is_interrupted: bool
    cited: list[Cited] = attrs.field(factory=list)
    messages: tuple[Message, ...] = ()

    async def earlier_result(self, call_id: str) -> EarlierResult | None:
        """Return None: the turn has no messages any more."""

    def deferred_tools(self) -> Mapping[str, ToolDefinition]:
        """Return none: no request follows."""
        return {}


class TurnPlace:
    """A turn in a context. Timers and connections keep the context they were made in, often for minutes."""

    __slots__ = ("_token", "turn")

    def __init__(self, turn: RunningTurn) -> None:
        self.turn = turn

    def enter(self) -> None:
        """Make it the turn this code runs in."""
        self._token = _place.set(self)

    def leave(self) -> None:
        """Restore what was there before; copies of the context then hold an EndedTurn."""
        turn = self.turn
        self.turn = EndedTurn(turn.info, turn.root, turn.is_interrupted)
        _place.reset(self._token)


_place: contextvars.ContextVar[TurnPlace | None] = contextvars.ContextVar("flexchat_turn", default=None)


class CurrentTurn:
    """The turn that code runs in."""

    def get(self) -> RunningTurn | None:
        """Return the turn; None outside turns."""
        place = _place.get()
        return None if place is None else place.turn


current_turn = CurrentTurn()

current_traceparent: contextvars.ContextVar[str] = contextvars.ContextVar("flexchat_traceparent", default="")
"""The W3C trace context this code runs in, unchecked: set for a request of a client, by a turn, and by plugins that
trace. Turns that begin here belong to it, and requests from here pass it on."""

current_tracestate: contextvars.ContextVar[str] = contextvars.ContextVar("flexchat_tracestate", default="")
"""What a client's tracing systems add to its traceparent, unchecked: set with ``current_traceparent``."""

Origin = Literal["model", "program", "command line", "api", "langchain", "mcp", "tool"]
"""Who asked for a call: a model in a turn, FlexChat.call_tool, ``flexchat tools call``, the HTTP API and its page, a
LangChain program, an MCP client, or another tool."""

Stage = Literal["report", "look up", "arguments", "authorize", "approve", "reserve", "claim", "run"]
"""Where a step runs, from the outside in; see flexchat/calls/steps.py. Only core has a step at "run"."""

STAGES: tuple[Stage, ...] = get_args(Stage)

Rest = Callable[[], Coroutine[Any, Any, ToolResult]]
"""Everything inside a step: awaited once, or not at all."""

Tell = Callable[["Call", ToolResult | None], Awaitable[None]]
"""Called when a call begins (None), and with its outcome unless the turn is cancelled."""

Asker = Callable[["Call", Question], Awaitable[Reply]]
"""Asks the person behind a turn, and returns the reply."""

Report = Callable[["Call", float, float | None, str], Awaitable[None]]
"""Reports how far a tool is: how much is done, of how much (None: unknown), and what is being done."""

current_principal: contextvars.ContextVar[Principal | None] = contextvars.ContextVar("flexchat_principal", default=None)
"""Whose requests this code handles: an entrance sets it, and turns, calls and listings that name no other principal
have it. Inside a turn, the turn's own counts."""

REPORTED_AGAIN_S = 0.1  # between two reports of a call; those in between are dropped
NO_TURN = TurnInfo()  # of calls outside turns
MAX_AGAIN = 8  # how often one call may start over: steps that never agree must not block it forever
MAX_DEPTH = 8  # how deep tools may call tools


@runtime_checkable
class Step(Protocol):
    """What happens to every tool call at one stage. A plugin yields its own from flexchat_register_steps."""

    @property
    def name(self) -> str:
        """Its unique name in logs and notes: "budget"."""

    @property
    def stage(self) -> Stage:
        """Where it runs."""

    async def __call__(self, call: Call, rest: Rest) -> ToolResult:
        """Return the call's outcome: that of ``await rest()``, or an answer in the tool's place."""


@attrs.frozen
class PluginStep:
    """A step and the plugin it comes from."""

    plugin: str
    step: Step


def stage_problem(step: Step) -> str | None:
    """Find the fault of the stage that a plugin's step names; None if it can run there."""
    if step.stage == "run":
        return f"step '{step.name}': only the tool runs at the stage 'run'; 'claim' is right around it"
    if step.stage not in STAGES:
        there = ", ".join(STAGES[:-1])
        hint = did_you_mean(str(step.stage), STAGES[:-1])
        return f"step '{step.name}': there is no stage '{step.stage}'{hint} (stages: {there})"
    return None


class Runner(Protocol):
    """What a running call needs from the executor, which runs it."""

    async def from_arguments(self, call: Call) -> ToolResult:
        """Run the steps from the argument check on."""

    async def run(self, call: Call) -> ToolResult:
        """Run all steps."""

    async def was_claimed(self, call: Call) -> bool:
        """Return whether this very call has claimed its effect before."""


class Asked(Protocol):
    """What the calls of a turn have asked, in earlier runs as well; see flexchat.turn.journal.Journal."""

    def was_asking(self, place: str) -> bool:
        """Return whether an earlier run of the call at a place broke off while it was waiting for a reply, before its
        tool had changed anything."""

    def approval_of(self, call: Call) -> tuple[Question, bool] | None:
        """Return the last question that asked for the approval of the call at a place, and whether that was this very
        call, with these arguments; None if there is none."""


class Claimed(Protocol):
    """The row of a call's effect in the ledger."""

    @property
    def key(self) -> str:
        """The key of the effect."""


class Offer(Protocol):
    """The tools of one turn; see flexchat.tools.registry.ToolRegistry."""

    def get(self, name: str) -> ToolDefinition | None:
        """Return the tool of that name; None if there is none."""

    def names(self) -> tuple[str, ...]:
        """Return the names of all."""

    def wire_name(self, name: str) -> str:
        """Return the name of a tool in requests to models."""


class Deadline:
    """A limit of time for the body of an ``async with``, which can be paused.

    Args:
        seconds: How long the body may take.
    """

    __slots__ = ("_left", "_timeout")

    def __init__(self, seconds: float) -> None:
        self._timeout = asyncio.timeout(seconds)
        self._left = 0.0

    def pause(self) -> None:
        """Pause the deadline."""
        when = self._timeout.when()
        if when is not None and not self._timeout.expired():
            self._left = when - asyncio.get_running_loop().time()
            self._timeout.reschedule(None)

    def resume(self) -> None:
        """Resume it with the time that was left."""
        with contextlib.suppress(RuntimeError):  # the body has ended: what asked was a task of its own
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left)

    def expired(self) -> bool:
        """Return whether the body was ended because its time was up."""
        return self._timeout.expired()

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._timeout.__aexit__(*error)


@attrs.define(kw_only=True, eq=False)
class Call:
    """One tool call and its state. Made once per call and passed to each of its steps.

    Attributes:
        name: The tool's own name, which is not always the one shown to the model.
        arguments: As they came, which may be anything; from the stage "arguments" on, a mapping that fits the schema.
        origin: Who asked for it.
        id: Unique.
        turn: The turn it belongs to; a TurnInfo without id outside turns.
        context: What the caller of the turn or of call_tool passed along, of any type. It is never shown to models and
            never stored.
        tool: None until it has been looked up, and if no tool has that name.
        offered: Names of the tools offered to the model; any other counts as not found. None allows all.
        offer: Where its name is looked up before all other tools: what the turn's model was offered. None for a call
            outside turns.
        refusal: Why the round has already refused it: a repeated call, a limit. It is still reported and recorded.
        seconds_left: Returns what is left of the turn's time; None if nothing limits it.
        tell: Called when it begins and with its outcome, instead of the plugins' event hooks.
        asker: Asks the person behind it, for ``ask``; None if there is no one to ask.
        asked: What the calls of its turn have asked, in earlier runs as well; None if none of that is kept.
        rule: Index and name of the rule that answers its turn; None if there is none.
        approve: Whether a person must approve it even if its tool does not require that: its rule or its turn does.
        report: Reports the progress of its tool; None without listeners.
        iteration: Which answer of the model asked for it, from 1; 0 outside the tool loop.
        index: Its place in that answer, from 0.
        parent: The call of the tool that makes this one.
        claimed: The effect it has claimed or tried to claim; None before the stage "claim", and for tools that change
            nothing.
        checked: The arguments as they passed the check, the same object as ``arguments`` from then on; read-only.
        handle: What the tool has remembered of a job it started, as JSON; of an earlier call if that broke off.
        remember: Keeps a handle; None before the stage "claim", and for tools that change nothing.
        has_reported_failure: Whether the tool itself has reported its failure, with a ToolError.
        has_returned: Whether the tool itself has come to its end, so that it has changed what it changes.
        uncertainty: Why it is unknown whether the tool, once started, took effect; empty if that is known.
        on_late_result: Called on the event loop with the outcome of a tool's thread that finished after the wait for it
            had ended: the value it returned, or the exception it raised.
        notes: What was adjusted along the way, for people; goes into the result's notes.
        facts: What steps add to the record, by step: JSON data. See ToolCallRecord.facts.
        is_new: Whether this very call cannot have been made before: its place has just been made up.
        has_started: Whether the tool itself has been started.
        begun_effect: The effect that its tool, or one which that called, has begun last; None without one.
        may_have_acted: Whether an attempt has ended such that the tool may have taken effect.
        attempts: How often it has been started.
        deadline: The time limit of the attempt that runs; None while none does.
        questions: How many questions it has asked.
        approval: The kept approval of this call, which the claim uses up; None if it needs none, or got it live.
        is_approved: Whether a person has approved this call: no step need ask again.
        interruption: What ended its run before it had an outcome: it waits for a reply, or its turn was lost.
        reported_at: When it last reported its progress, by time.monotonic().
    """

    name: str
    arguments: Any
    origin: Origin
    id: str = attrs.field(factory=new_call_id)
    turn: TurnInfo = NO_TURN
    context: Any = None
    tool: ToolDefinition | None = None
    offered: Collection[str] | None = None
    offer: Offer | None = None
    refusal: str | None = None
    seconds_left: Callable[[], float | None] | None = None
    tell: Tell | None = None
    asker: Asker | None = None
    asked: Asked | None = None
    rule: tuple[int, str | None] | None = None
    approve: bool = False
    report: Report | None = None
    iteration: int = 0
    index: int = 0
    parent: Call | None = None
    _path: str = ""
    claimed: Claimed | None = attrs.field(default=None, init=False, repr=False)
    uncertainty: str = ""
    checked: Any = attrs.field(default=None, init=False, repr=False)
    handle: str | None = attrs.field(default=None, init=False, repr=False)
    remember: Callable[[Any], Awaitable[None]] | None = attrs.field(default=None, init=False, repr=False)
    has_reported_failure: bool = attrs.field(default=False, init=False, repr=False)
    has_returned: bool = attrs.field(default=False, init=False, repr=False)
    on_late_result: Callable[[Any, BaseException | None], None] | None = attrs.field(
        default=None, init=False, repr=False
    )
    deadline: Deadline | None = attrs.field(default=None, init=False, repr=False)
    questions: int = attrs.field(default=0, init=False, repr=False)
    approval: Approval | None = attrs.field(default=None, init=False, repr=False)
    is_approved: bool = attrs.field(default=False, init=False, repr=False)
    interruption: Exception | CallSuspended | None = attrs.field(default=None, init=False, repr=False)
    reported_at: float = attrs.field(default=-math.inf, init=False, repr=False)
    _waits: int = attrs.field(default=0, init=False, repr=False)
    children: int = attrs.field(default=0, init=False, repr=False)
    notes: list[str] = attrs.field(factory=list)
    facts: dict[str, Any] = attrs.field(factory=dict)
    is_new: bool = False
    has_started: bool = False
    begun_effect: Claimed | None = attrs.field(default=None, init=False, repr=False)
    may_have_acted: bool = attrs.field(default=False, init=False, repr=False)
    attempts: int = 0
    runner: Runner | None = attrs.field(default=None, init=False, repr=False)
    restarts: tuple[ToolResult | None, ...] = attrs.field(default=(), init=False, repr=False)

    def note(self, text: str) -> None:
        """Add a sentence to the record, for people."""
        self.notes.append(text)

    async def ask(
        self,
        message: str,
        schema: Mapping[str, Any] | None = None,
        *,
        url: str = "",
        digest: str = "",
        details: Mapping[str, Any] | None = None,
        remember: Mapping[str, str] | None = None,
        expires_s: float | None = None,
    ) -> Reply:
        """Ask the person behind the call, and return the reply. No time limit of the tool or the turn runs meanwhile.

        For steps at the stages "authorize", "approve" and "reserve", and for gates. Only the action "accept" is a yes:
        without a person, or without a reply in time, the action is another, and ``reply.why`` gives the reason.
        In a kept turn the reply is on disk before it is returned; a resumed turn gets it from there, so that the same
        question about the same call is answered once.

        Args:
            message: What the person reads. Name what they decide about: a resumed turn compares the text.
            schema: JSON Schema of the object that answers; its properties become the fields of a form. None: yes or no.
            url: A page where the person does something, in place of a form.
            digest, details, remember, expires_s: As in Question. With a digest (``approval_digest``), a yes becomes the
                call's ``approval``, which lets it run once.

        Raises:
            CallSuspended: There is no reply, and the question is kept: let it through, the call runs again later.
            StorageError, LostTurnError: The turn is kept, and question or reply cannot be recorded.
        """
        if self.asker is None:
            return Reply(action="decline", why=NOBODY)
        question = Question(
            message=message,
            schema=schema,
            url=url,
            digest=digest,
            details=details or {},
            remember=remember or {},
            expires_s=expires_s,
        )
        return await self.asker(self, question)

    async def was_claimed(self) -> bool:
        """Return whether this very call has claimed its effect before: it was approved, and the ledger decides."""
        return self.runner is not None and await self.runner.was_claimed(self)

    def approval_digest(self, policy: Any = None) -> str:
        """Return the digest of what a person approves: this call, its tool's definition, its arguments, and a policy.

        Args:
            policy: What requires the approval, JSON data: with another policy, the call needs another approval.
        """
        tool = self.tool
        # A field that is added later, as pinned was, is left out, or an upgrade would void replies of before.
        definition = None if tool is None else attrs.asdict(tool, filter=lambda field, _: field.name != "pinned")
        site = [self.turn.tenant, self.turn.conversation, self.turn.id, self.path]
        text = json.dumps([site, definition, policy], sort_keys=True, skipkeys=True, default=_stable_repr)
        arguments = self.arguments if not isinstance(self.arguments, Mapping) else dict(self.arguments)
        try:
            return arguments_digest(text, arguments)
        except ValueError:  # given in code, and not expressible in JSON
            return arguments_digest(text, repr(arguments))

    @property
    def can_wait(self) -> bool:
        """Whether it may run again from its beginning: no write around it has started that may have changed something.

        A tool that is marked with ``asks_first`` has changed nothing yet; one with a handle starts nothing again.
        """
        call: Call | None = self
        while call is not None:
            if call.may_have_acted:
                return False
            changes = call.has_started and call.tool is not None and call.tool.effect == "write"
            if changes and not (call.tool is not None and call.tool.asks_first) and call.handle is None:
                return False
            call = call.parent
        return True

    def suspend(self, question: str) -> CallSuspended:
        """Return the error that ends the run of this call, and of those around it, until a question has its reply."""
        suspension = CallSuspended(question)
        self.interrupt(suspension)
        return suspension

    def interrupt(self, error: Exception | CallSuspended) -> None:
        """Note what ends the run of this call, and of those around it, without an outcome."""
        call: Call | None = self
        while call is not None:
            # Noted as well as raised: the run of a tool that catches the error ends nevertheless.
            call.interruption = error
            call = call.parent

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Pause the deadline of the tool, and those of the tools that called it, while it waits for a person."""
        stopped = []
        call: Call | None = self
        while call is not None:
            call._waits += 1
            stopped.append((call, call.deadline))
            if call._waits == 1 and call.deadline is not None:
                call.deadline.pause()
            call = call.parent
        try:
            yield
        finally:
            for each, deadline in stopped:
                each._waits -= 1
                if each._waits == 0 and deadline is not None:
                    deadline.resume()

    @property
    def path(self) -> str:
        """Its place in the turn: "2.0" is the first call of the model's second answer, "2.0/1" the second call made
        by that call's tool. Outside turns, "key:" and the key its caller gave, or a random one.
        """
        if not self._path:
            self._path = f"{self.iteration}.{self.index}" if self.iteration and self.turn.id else new_call_id()
        return self._path

    @property
    def key(self) -> str | None:
        """The key of its effect: the same whenever this very call is repeated, for example after a crash.

        None before the stage "claim", and for tools that change nothing.
        """
        return None if self.claimed is None else self.claimed.key

    def next_place(self) -> str:
        """Return the place of the next call, or turn, that this one's tool starts: "2.0/0", then "2.0/1"."""
        self.children += 1
        return f"{self.path}/{self.children - 1}"

    @property
    def digest(self) -> str:
        """SHA-256 of the tool's name and the arguments, in hexadecimal: equal for equal calls. Computed on demand.

        Raises:
            ValueError: The arguments are not JSON data.
        """
        return arguments_digest(self.name, self.arguments)

    async def again(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Start over with other arguments, from the stage "arguments" on, so that every gate sees what will run.

        For use in a step, instead of ``await rest()``. The step itself runs again as well.

        Raises:
            RuntimeError: The tool has started or has not been looked up, its effect has been claimed, or the call has
                already started over MAX_AGAIN times.
        """
        if self.has_started:
            raise RuntimeError("the tool has started: the call cannot start over")
        if self.claimed is not None:
            raise RuntimeError("the effect has been claimed with these arguments: the call cannot start over")
        if self.runner is None or self.tool is None:
            raise RuntimeError("the tool has not been looked up: the call cannot start over")
        if len(self.restarts) >= MAX_AGAIN:
            raise RuntimeError(f"the call has started over {MAX_AGAIN} times")
        self.approval, self.is_approved = None, False  # they were for the other arguments
        place = len(self.restarts)
        # Counted before the steps run again, so that a step that always starts over comes to its limit.
        self.restarts += (None,)
        self.arguments = arguments
        result = await self.runner.from_arguments(self)
        self.restarts = (*self.restarts[:place], result, *self.restarts[place + 1 :])
        return result

    def child(
        self, name: str, arguments: Mapping[str, Any], *, path: str = "", tool: ToolDefinition | None = None
    ) -> Call:
        """Return a call made by this one's tool: in the same turn, its time and its context.

        Args:
            path: Its place; default: the next one inside this call's.
            tool: The tool; default: the one of this name that the turn offers, or else the only one.
        """
        depth, above = 1, self.parent
        while above is not None:
            depth, above = depth + 1, above.parent
        return Call(
            name=name,
            arguments=arguments,
            origin="tool",
            turn=self.turn,
            context=self.context,
            tool=tool,
            offer=self.offer,
            refusal=f"Not executed: tools may call tools {MAX_DEPTH} deep" if depth > MAX_DEPTH else None,
            seconds_left=self.seconds_left,
            tell=self.tell,
            asker=self.asker,
            asked=self.asked,
            rule=self.rule,
            approve=self.approve,
            report=self.report,
            iteration=self.iteration,
            index=self.index,
            parent=self,
            path=path or self.next_place(),
            is_new=self.is_new,
        )


def _stable_repr(value: Any) -> Any:
    """Return JSON data for a value, the same in every process."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | set | frozenset):
        return sorted(map(repr, value)) if not isinstance(value, tuple) else list(value)
    return getattr(value, "__qualname__", type(value).__qualname__)


current_call: contextvars.ContextVar[Call | None] = contextvars.ContextVar("flexchat_call", default=None)
"""The tool call this code runs in; None outside of tools."""


def place_within() -> str:
    """Return a new place inside the tool call this code runs in; empty outside of the calls of a turn."""
    call, turn = current_call.get(), current_turn.get()
    if call is None or turn is None or not turn.info.id or call.turn.id != turn.info.id:
        return ""
    return call.next_place()


def current_info(tenant: str = DEFAULT_TENANT, principal: Principal | None = None) -> TurnInfo:
    """Return which turn this code runs in; one without an id outside turns.

    Args:
        tenant, principal: Those to use outside turns; by default, the principal is that of ``current_principal``. In a
            tool it is that of the tool's call: a tool cannot widen what its caller may do by naming another one.
    """
    turn = current_turn.get()
    if turn is not None:
        return turn.info
    traceparent = traceparent_here()
    return TurnInfo(
        tenant=tenant,
        principal=principal_here(principal),
        traceparent=traceparent or new_traceparent(),
        tracestate=usable_tracestate(current_tracestate.get()) if traceparent else "",
    )


def principal_here(principal: Principal | None = None) -> Principal | None:
    """Return the principal of the tool call this code runs in, or else the one given, or ``current_principal``."""
    call = current_call.get()
    return (call.turn.principal if call is not None else None) or principal or current_principal.get()


def traceparent_here() -> str:
    """Return the W3C trace context that a request from here passes on; empty if there is none."""
    traceparent = current_traceparent.get()
    return traceparent if is_traceparent(traceparent) else ""
