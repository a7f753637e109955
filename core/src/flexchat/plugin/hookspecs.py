"""Every hook a FlexChat plugin may implement: the whole plugin surface on one page.

There are two kinds.

flexchat_register_*   Called once, while the app is built. Yield records; FlexChat keeps them and calls what they
                      hold. A name that two plugins offer can be used by neither until one of them is blocked.
all others            Called during a turn: watch, log, measure. One that raises is logged under its plugin's name
                      and the turn goes on. Only flexchat_before_tool_call can change what happens; a step
                      (flexchat_register_steps) can do so in more ways.

An implementation names only the arguments it wants. Event hooks are `def` or `async def`; they run on the event
loop, one after the other, so they must not block.

core/tests/plugin/test_hookspecs.py runs the examples.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from ..domain import ChatOptions, ChatResponse, ChatResult, Message, ToolDefinition, ToolResult
    from .call import Step
    from .contracts import (
        Command,
        ConversationStoreType,
        ImplementationType,
        ProviderType,
        RerankerType,
        RetrieverType,
        ToolHandler,
    )

hookspec = pluggy.HookspecMarker("flexchat")
hookimpl = pluggy.HookimplMarker("flexchat")


@hookspec
def flexchat_register_providers() -> Iterable[ProviderType]:  # type: ignore[empty-body]
    """Offer kinds of LLM service: what `provider` in an llms entry may say.

    Example:
        @hookimpl
        def flexchat_register_providers():
            yield ProviderType(
                name="parrot", config_class=ParrotConfig, create=Parrot, tool_formats={"parrot": encode_tools}
            )
    """


@hookspec
def flexchat_register_tools() -> Iterable[ToolDefinition]:  # type: ignore[empty-body]
    """Offer ready-made tools, which a config switches on by name alone.

    Example:
        @hookimpl
        def flexchat_register_tools():
            yield ToolDefinition(
                name="roll_dice",
                description="Roll one die.",
                parameters={"type": "object", "properties": {"sides": {"type": "integer", "minimum": 2}}},
                implementation=Implementation(type="builtin", settings={"handler": "roll"}),
            )
    """


@hookspec
def flexchat_register_tool_handlers() -> Iterable[ToolHandler]:  # type: ignore[empty-body]
    """Offer functions that tools may name as their handler.

    Example:
        def roll(params, context):
            return {"rolled": random.randint(1, params.get("sides", 6))}

        @hookimpl
        def flexchat_register_tool_handlers():
            yield ToolHandler(kind="builtin", name="roll", call=roll)
    """


@hookspec
def flexchat_register_implementation_types() -> Iterable[ImplementationType]:  # type: ignore[empty-body]
    """Offer ways to run a tool: what `implementation.type` may say.

    Example:
        @attrs.frozen(kw_only=True)
        class ConstantSettings:
            value: str

        async def run(settings, params, context):
            return settings.value

        @hookimpl
        def flexchat_register_implementation_types():
            yield ImplementationType(name="constant", settings_class=ConstantSettings, run=run)
    """


@hookspec
def flexchat_register_retrievers() -> Iterable[RetrieverType]:  # type: ignore[empty-body]
    """Offer kinds of document store: what `provider` in a rag_services entry may say.

    Example:
        @hookimpl
        def flexchat_register_retrievers():
            yield RetrieverType(name="shelf", config_class=ShelfConfig, create=Shelf)
    """


@hookspec
def flexchat_register_rerankers() -> Iterable[RerankerType]:  # type: ignore[empty-body]
    """Offer kinds of reranker: what `rerank` in a rag_services entry may say.

    Example:
        class ByLength:
            async def rerank(self, query, passages):
                return [1 / (1 + len(passage)) for passage in passages]

            async def aclose(self):
                pass

        @hookimpl
        def flexchat_register_rerankers():
            yield RerankerType(name="shortest", create=ByLength)
    """


@hookspec
def flexchat_register_conversation_stores() -> Iterable[ConversationStoreType]:  # type: ignore[empty-body]
    """Offer places to keep conversations: what `provider` in the table conversations may say.

    Example:
        @hookimpl
        def flexchat_register_conversation_stores():
            yield ConversationStoreType(name="notebook", config_class=NotebookConfig, create=Notebook)
    """


@hookspec
def flexchat_register_steps() -> Iterable[Step]:  # type: ignore[empty-body]
    """Offer steps that every tool call goes through: a budget, an approval, an audit. See docs/tool-calls.md.

    A step stands at one of the places told, look up, arguments, authorize, approve, reserve and claim. If it raises
    before the tool has begun, the call is refused. A place that does not exist, or a name that another step has,
    keeps everything from starting.

    Example:
        class OfficeHours:
            name = "office hours"
            place = "authorize"

            async def __call__(self, call, rest):
                if call.tool.effect == "write" and not 8 <= time.localtime().tm_hour < 18:
                    return ToolResult.failed(call.name, "Only between 8 and 18 o'clock")
                return await rest()

        @hookimpl
        def flexchat_register_steps():
            yield OfficeHours()
    """


@hookspec
def flexchat_register_commands() -> Iterable[Command]:  # type: ignore[empty-body]
    """Offer subcommands of the `flexchat` command line.

    Example:
        def add_arguments(parser):
            parser.add_argument("--loud", action="store_true")

        def run(args):
            print("HELLO" if args.loud else "hello")
            return 0

        @hookimpl
        def flexchat_register_commands():
            yield Command(name="hello", summary="Say hello.", add_arguments=add_arguments, run=run)
    """


@hookspec
def flexchat_turn_started(turn_id: str, user_message: str) -> Awaitable[None] | None:
    """A user's message has arrived; no phase has run yet.

    Args:
        turn_id: 32 hexadecimal digits, the same in every event of the turn.
    """


@hookspec
def flexchat_phase_finished(turn_id: str, phase: str, outcome: object, elapsed_ms: float) -> Awaitable[None] | None:
    """One of the six phases is done.

    Args:
        phase: "topic detection", "rag collection", "intent detection", "profile building",
            "response matching" or "response generation".
        outcome: What the phase returned, in the order above: the topic (str), RagResults, the intent (str or None),
            Profile, the rule as (index, ResponseRule), ChatResponse. A phase that was not run returns what it would
            have without a model or a store.

    Example:
        @hookimpl
        def flexchat_phase_finished(phase, elapsed_ms):
            print(f"{phase}: {elapsed_ms:.0f} ms")
    """


@hookspec
def flexchat_before_chat(
    turn_id: str, service: str, model: str, messages: tuple[Message, ...], options: ChatOptions
) -> Awaitable[None] | None:
    """A request is about to go to a provider: for the answer, or for phase 1 or 3.

    Args:
        service: Name of the LLM in the config.
    """


@hookspec
def flexchat_after_chat(
    turn_id: str, service: str, model: str, result: ChatResult, elapsed_ms: float
) -> Awaitable[None] | None:
    """A provider has answered. Not called if it failed: see flexchat_turn_failed."""


@hookspec
def flexchat_before_tool_call(
    turn_id: str, call_id: str, tool: ToolDefinition, params: Mapping[str, Any]
) -> Awaitable[ToolResult | None] | ToolResult | None:
    """A tool is about to run, its parameters already checked. Stands at the place "authorize"; see docs/tool-calls.md.

    Return a ToolResult to answer in the tool's place (refuse, ask a person, serve a kept value): the tool
    then does not run. Return None to let it run. The plugin registered last is asked first and the first
    ToolResult wins. If an implementation raises, the call is refused: a gate that breaks stays shut.

    Args:
        call_id: The ToolCall's id. Calls of one answer run side by side: pair before and after by it.

    Example:
        @hookimpl
        async def flexchat_before_tool_call(tool, params):
            if tool.name == "delete_account":
                return ToolResult.failed(tool.name, "A person must do this")
    """


@hookspec
def flexchat_after_tool_call(
    turn_id: str, call_id: str, tool: ToolDefinition | None, params: Mapping[str, Any], result: ToolResult
) -> Awaitable[None] | None:
    """A tool call has ended, whatever came of it: the tool has answered, well or badly, or a plugin has in its place,
    or it was refused, its arguments were wrong, or there is no such tool.

    Args:
        tool: None where there is none of that name, or it was not offered; result.tool_name is the name.
        params: As they were checked; as they came, which may be anything, where the call did not get so far.
    """


@hookspec
def flexchat_turn_finished(turn_id: str, response: ChatResponse, elapsed_ms: float) -> Awaitable[None] | None:
    """The response is ready to go back to the user."""


@hookspec
def flexchat_turn_failed(turn_id: str, error: Exception, elapsed_ms: float) -> Awaitable[None] | None:
    """The turn ended in an error, which is still on its way to the caller.

    A turn that is cancelled, or whose stream is closed early, ends with neither this event nor flexchat_turn_finished.
    """
