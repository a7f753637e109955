"""AnthropicClient and OllamaClient: LangChain's chat models, with FlexChat's one executor for their tools."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from typing import Any, TypeAlias

import attrs
from flexchat import FlexChat, ToolCall, ToolCallRecord
from flexchat.calls.manager import ToolLike, ToolManager
from flexchat.config.model import LimitsTable
from flexchat.domain import ChatResult
from flexchat.domain.masking import Mask
from flexchat.domain.text import counted
from flexchat.errors import ChatRequestError, ProviderError, UnknownNameError, did_you_mean
from flexchat.plugin.foreign import told
from flexchat.turn.answer import TOO_MANY_CALLS
from flexchat.turn.next_step import NextStep, calls_to_run, next_step, why_no_answer
from flexchat.turn.tool_loop import ToolLoop, ToolRound
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    message_chunk_to_message,
)

from .answers import assistant_message, finish_reason
from .errors import provider_error
from .models import close_model, load_class, make_model, named_model, secrets_of
from .results import all_calls, pair_results, repaired, result_message, unknown_tool, with_ids
from .tool_format import encode_tools

log = logging.getLogger(__name__)

Executor: TypeAlias = "FlexChat | ToolManager | Iterable[ToolLike]"
"""Who has the tools and runs them: a configured chat, its tools alone, or functions and definitions."""

ClientEvent: TypeAlias = "AIMessageChunk | ToolMessage | ClientAnswer"
"""What a client's stream yields."""


@attrs.frozen(kw_only=True)
class ClientAnswer:
    """What came of one message.

    Attributes:
        content: The text for the user.
        messages: The whole conversation, as the next ``send`` may be given it: what there was, an AIMessage and its
            ToolMessages for each turn of the loop, and the model's last word.
        tool_calls: Every call, oldest first.
        max_iterations_reached: The loop was ended by a limit, not by the model.
        warnings: Why the answer is none, or no whole one.
    """

    content: str
    messages: tuple[BaseMessage, ...]
    tool_calls: tuple[ToolCallRecord, ...] = ()
    max_iterations_reached: bool = False
    warnings: tuple[str, ...] = ()


class LangChainClient:
    """Asks a LangChain chat model, and runs the tools it asks for, until it answers.

    Calls are read from ``response.tool_calls``, which their integration fills. They run in FlexChat's tool loop and
    executor, as in a turn of FlexChat: checked, in time, side by side, with the same limits. The conversation is a list
    of LangChain's messages.

    Args:
        executor: Who has the tools and runs them.
        chat_model: The model.
        prompt: System prompt of conversations that have none.
        max_iterations: Answers that may ask for tools, for one message; absent: what the executor's configuration says.
    """

    def __init__(
        self, executor: Executor, chat_model: BaseChatModel, *, prompt: str = "", max_iterations: int | None = None
    ) -> None:
        if max_iterations is not None and max_iterations < 1:
            raise ChatRequestError(f"max_iterations must be at least 1, got {max_iterations}")
        if not isinstance(chat_model, BaseChatModel):
            raise TypeError(f"chat_model is a chat model of LangChain's, not {type(chat_model).__name__}")
        self.chat_model = chat_model
        self._tools = _manager(executor)
        self._limits = executor.config.limits if isinstance(executor, FlexChat) else LimitsTable()
        self._prompt = prompt
        self._max_iterations = max_iterations or self._tools.get_max_iterations()
        self._mask = Mask(secrets_of(vars(chat_model)))
        self._bound: dict[tuple[str, ...], Any] = {}

    async def send(
        self,
        message: str | BaseMessage | Sequence[BaseMessage],
        *,
        history: Sequence[BaseMessage] = (),
        tools: Collection[str] | None = None,
    ) -> ClientAnswer:
        """Send a message, and whatever its tool calls need, until the model answers.

        Args:
            message: What the user says, or a whole conversation.
            history: What was said before it: ``messages`` of the last answer. Calls in it that have no result get one.
            tools: Names of the tools offered; absent: all, none: an empty list.

        Raises:
            UnknownNameError: There is no tool of one of the names.
            ProviderError: The service did not answer. Trouble with a tool is told to the model.
        """
        async with contextlib.aclosing(self._events(message, history, tools, streamed=False)) as events:
            async for event in events:
                if isinstance(event, ClientAnswer):
                    return event
        raise AssertionError("a conversation ends with its answer")

    def stream(
        self,
        message: str | BaseMessage | Sequence[BaseMessage],
        *,
        history: Sequence[BaseMessage] = (),
        tools: Collection[str] | None = None,
    ) -> AsyncGenerator[ClientEvent, None]:
        """Do as send, and yield chunks and results as they come; the last event is the ClientAnswer."""
        return self._events(message, history, tools, streamed=True)

    async def aclose(self) -> None:
        """Close the model's connections, where they are its own."""
        await close_model(self.chat_model)

    async def _events(
        self,
        message: str | BaseMessage | Sequence[BaseMessage],
        history: Sequence[BaseMessage],
        tools: Collection[str] | None,
        *,
        streamed: bool,
    ) -> AsyncGenerator[ClientEvent, None]:
        offered = self._offered(tools)
        messages = self._conversation(message, history)
        loop = ToolLoop(
            self._tools.get_registry(),
            self._tools.calls,
            offered,
            origin="langchain",
            time_left=lambda: None,
            per_answer=self._limits.tool_calls_per_answer,
            per_turn=self._limits.tool_calls_per_turn,
        )
        records: list[ToolCallRecord] = []
        paused = ""  # what the model said before it paused and went on
        for iteration in range(1, self._max_iterations + 1):
            said = _Said()
            async with contextlib.aclosing(self._ask(offered, messages, said, streamed)) as chunks:
                async for chunk in chunks:
                    yield chunk
            messages.append(said.message)
            step = next_step(said.result)
            if step is NextStep.CONTINUE and iteration < self._max_iterations:
                paused += said.result.content or ""
                continue
            if step is not NextStep.RUN_TOOLS:
                yield _ended(said, step, messages, records, paused)
                return
            paused = ""
            async with contextlib.aclosing(loop.run(calls_to_run(said.result), iteration)) as running:
                async for event in running:
                    if isinstance(event, ToolRound):
                        records += event.records
                        answers = self._results(said.result.tool_calls, event.records, offered)
                        results = pair_results(all_calls(said.message), answers)
            for result in results:
                messages.append(result)
                if streamed:
                    yield result
            if loop.exhausted:
                break
        why = loop.exhausted or f"{counted(self._max_iterations, 'answer')} asked for tools"
        log.warning("the tool loop was ended: %s", why)
        messages.append(AIMessage(content=TOO_MANY_CALLS))
        yield ClientAnswer(
            content=TOO_MANY_CALLS,
            messages=tuple(messages),
            tool_calls=tuple(records),
            max_iterations_reached=True,
            warnings=(f"the tool loop was ended: {why}",),
        )

    async def _ask(
        self, offered: tuple[str, ...], messages: Sequence[BaseMessage], said: _Said, streamed: bool
    ) -> AsyncGenerator[AIMessageChunk, None]:
        """Ask the model; yield its chunks, and leave the whole answer in said."""
        try:
            model = self._model(offered)
            if streamed:
                async for chunk in model.astream([*messages]):
                    said.add(chunk)
                    if isinstance(chunk, AIMessageChunk):
                        yield chunk
            else:
                said.add(await model.ainvoke([*messages]))
            said.finish()
            return
        except Exception as error:  # noqa: BLE001  any SDK may be below
            name = named_model({"model": getattr(self.chat_model, "model", None)}) or None
            failure = self._failure(error, name)
        raise failure

    def _failure(self, error: Exception, model: str | None) -> ProviderError:
        if isinstance(error, ProviderError):
            return error
        return provider_error(error, service=type(self.chat_model).__name__, model=model, mask=self._mask)

    def _model(self, offered: tuple[str, ...]) -> Any:
        """Return the model with these tools, bound once."""
        if offered not in self._bound:
            registry = self._tools.get_registry()
            tools = [tool for name in offered if (tool := registry.get(name)) is not None]
            sent = [attrs.evolve(tool, name=registry.sent_name(tool.name)) for tool in tools]
            self._bound[offered] = self.chat_model.bind_tools(encode_tools(sent)) if sent else self.chat_model
        return self._bound[offered]

    def _results(
        self, calls: Sequence[ToolCall], records: Sequence[ToolCallRecord], offered: tuple[str, ...]
    ) -> list[ToolMessage]:
        max_chars = self._tools.table.max_result_chars
        return [
            result_message(call, record.result, max_chars=max_chars) if record.tool in offered else unknown_tool(call)
            for call, record in zip(calls, records, strict=True)
        ]

    def _offered(self, tools: Collection[str] | None) -> tuple[str, ...]:
        known = self._tools.get_registry().names()
        tools = (tools,) if isinstance(tools, str) else tools
        for name in tools if tools is not None else ():
            if name not in known:
                listed = ", ".join(known) or "none"
                raise UnknownNameError(f"no tool is called '{name}'{did_you_mean(name, known)} (there are: {listed})")
        return known if tools is None else tuple(name for name in known if name in tools)

    def _conversation(
        self, message: str | BaseMessage | Sequence[BaseMessage], history: Sequence[BaseMessage]
    ) -> list[BaseMessage]:
        if not isinstance(message, str | BaseMessage | Sequence):
            raise ChatRequestError(f"a message is a text or LangChain's messages, not {type(message).__name__}")
        new = [message] if isinstance(message, str | BaseMessage) else message
        try:
            messages = repaired(convert_to_messages([*history, *new]))
        except (NotImplementedError, ValueError) as error:
            first_line = str(error).partition("\n")[0]
            raise ChatRequestError(f"the conversation holds what is no message of LangChain's: {first_line}") from None
        if self._prompt and not any(isinstance(known, SystemMessage) for known in messages):
            return [SystemMessage(content=self._prompt), *messages]
        return messages


class AnthropicClient(LangChainClient):
    """A client of Anthropic's models, over ChatAnthropic: ``pip install 'flexchat-langchain[anthropic]'``.

    Args:
        model: "claude-sonnet-4-5" …
        settings: ChatAnthropic's own: api_key (else ANTHROPIC_API_KEY), max_tokens, thinking …

    Raises:
        ImportError: langchain-anthropic is not installed.
        ValueError: ChatAnthropic does not take these settings.
    """

    def __init__(
        self, executor: Executor, *, model: str, prompt: str = "", max_iterations: int | None = None, **settings: Any
    ) -> None:
        chat_model = _chat_model("langchain_anthropic:ChatAnthropic", "anthropic", model, settings)
        super().__init__(executor, chat_model, prompt=prompt, max_iterations=max_iterations)


class OllamaClient(LangChainClient):
    """A client of an Ollama server, over ChatOllama: ``pip install 'flexchat-langchain[ollama]'``.

    Args:
        model: "qwen3" …
        settings: ChatOllama's own: base_url, num_ctx, reasoning …

    Raises:
        ImportError: langchain-ollama is not installed.
        ValueError: ChatOllama does not take these settings.
    """

    def __init__(
        self, executor: Executor, *, model: str, prompt: str = "", max_iterations: int | None = None, **settings: Any
    ) -> None:
        chat_model = _chat_model("langchain_ollama:ChatOllama", "ollama", model, settings)
        super().__init__(executor, chat_model, prompt=prompt, max_iterations=max_iterations)


class _Said:
    """An answer of the model: what has come of it, then the whole.

    Attributes:
        message: As it goes back to the model; every call has an id.
        result: The same in our words.
    """

    message: AIMessage
    result: ChatResult

    def __init__(self) -> None:
        self._sum: Any = None

    def add(self, piece: Any) -> None:
        self._sum = piece if self._sum is None else self._sum + piece

    def finish(self) -> None:
        if not isinstance(self._sum, AIMessage):
            raise TypeError(f"the model gave a {type(self._sum).__name__} for an answer")
        whole = with_ids(self._sum)
        ours = assistant_message(whole, keep_ids=True)
        reason = finish_reason(whole, has_calls=bool(ours.tool_calls))
        self.result = ChatResult(message=ours, finish_reason=reason)
        self.message = message_chunk_to_message(whole) if isinstance(whole, AIMessageChunk) else whole  # type: ignore[assignment]


def _ended(
    said: _Said, step: NextStep, messages: list[BaseMessage], records: Sequence[ToolCallRecord], paused: str
) -> ClientAnswer:
    warnings = () if step is NextStep.FINISH else (why_no_answer(said.result.finish_reason),)
    messages += pair_results(all_calls(said.message), (), why="; ".join(warnings))
    return ClientAnswer(
        content=paused + (said.result.content or said.result.message.refusal or ""),
        messages=tuple(messages),
        tool_calls=tuple(records),
        warnings=warnings,
    )


def _manager(executor: Executor) -> ToolManager:
    if isinstance(executor, FlexChat):
        return executor.tools
    if isinstance(executor, ToolManager):
        return executor
    if not isinstance(executor, Iterable) or isinstance(executor, str):
        kind = type(executor).__name__
        raise TypeError(f"tools are run by a FlexChat or a ToolManager, or given as functions; not by a {kind}")
    manager = ToolManager()
    manager.add(executor)
    return manager


def _chat_model(class_path: str, extra: str, model: str, settings: dict[str, Any]) -> BaseChatModel:
    package = class_path.partition(":")[0]
    if importlib.util.find_spec(package) is None:
        name = package.replace("_", "-")
        raise ImportError(f"{name} is not installed: pip install 'flexchat-langchain[{extra}]'")
    try:
        return make_model(load_class(class_path, settings), model, {}, settings)
    except Exception as error:  # noqa: BLE001  an SDK may refuse them too, and its error may show a key
        text = Mask(secrets_of(settings))(told(error))
    raise ValueError(text)
