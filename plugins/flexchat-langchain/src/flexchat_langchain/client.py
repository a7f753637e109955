"""AnthropicClient and OllamaClient: LangChain's chat models with FlexChat's tool executor."""

from __future__ import annotations

import contextlib
import contextvars
import importlib.util
import logging
import time
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from typing import Any, ClassVar, TypeAlias

import attrs
from flexchat import (
    ChatRequest,
    ChatRequestError,
    FlexChat,
    ModelRequestFinished,
    ModelRequestStarted,
    RequestRefusedError,
    ToolCall,
    ToolCallRecord,
    ToolDefinition,
)
from flexchat.host import (
    TOO_MANY_CALLS,
    ActiveTurn,
    Config,
    Feed,
    LimitsTable,
    Llms,
    Mask,
    NextStep,
    ToolLike,
    ToolManager,
    TurnEngine,
    in_turn,
    next_step,
    no_answer_reason,
    read_turn,
    rounds,
)
from flexchat.plugin import ChatResult, FlexChatError, ModelRequest
from flexchat_sdk import ChatOptions, error_text
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
from .implementation import encode_tools
from .messages import from_langchain, to_langchain
from .models import close_model, load_class, make_model, named_model, secrets_of
from .results import all_calls, pair_results, repaired, result_message, unknown_tool, with_ids
from .tools import check_names

log = logging.getLogger(__name__)

Executor: TypeAlias = "FlexChat | ToolManager | Iterable[ToolLike]"
"""Who has the tools and runs them: a configured chat, its tools alone, or functions and definitions."""

ClientEvent: TypeAlias = "AIMessageChunk | ToolMessage | ClientAnswer"
"""What a client's stream yields."""


@attrs.frozen(kw_only=True)
class ClientAnswer:
    """The answer to one message.

    Attributes:
        content: The text for the user.
        messages: The whole conversation, suitable as the next ``history``: the earlier messages, an AIMessage with its
            ToolMessages for each iteration, and the final answer.
        tool_calls: All calls, oldest first.
        max_iterations_reached: A limit ended the loop, not the model.
        warnings: Reasons why the answer is missing or incomplete.
    """

    content: str
    messages: tuple[BaseMessage, ...]
    tool_calls: tuple[ToolCallRecord, ...] = ()
    max_iterations_reached: bool = False
    warnings: tuple[str, ...] = ()


class LangChainClient:
    """Sends messages to a LangChain chat model and runs the tools it calls until it answers.

    Calls are taken from ``response.tool_calls``. They run in FlexChat's tool loop and executor as in a turn: validated,
    with timeouts, concurrently and with the same limits. The conversation is a list of LangChain messages.

    Args:
        executor: The FlexChat whose tools are offered and run.
        chat_model: The model.
        prompt: System prompt of conversations that have none.
        max_iterations: Maximum number of answers with calls per message; default: from the executor's configuration.

    Attributes:
        tools: Registry and limits of its tools.
    """

    def __init__(
        self, executor: Executor, chat_model: BaseChatModel, *, prompt: str = "", max_iterations: int | None = None
    ) -> None:
        if max_iterations is not None and max_iterations < 1:
            raise ChatRequestError(f"max_iterations must be at least 1, got {max_iterations}")
        if not isinstance(chat_model, BaseChatModel):
            raise TypeError(f"chat_model must be a LangChain chat model, not {type(chat_model).__name__}")
        self.chat_model = chat_model
        self.tools = _manager(executor)
        self.max_iterations = max_iterations or self.tools.get_max_iterations()
        limits = executor.config.limits if isinstance(executor, FlexChat) else LimitsTable()
        hooks = executor.hooks if isinstance(executor, FlexChat) else None
        self._engine = TurnEngine(Config(limits=limits), Llms(), self.tools, hooks=hooks)
        self._prompt = prompt
        self._mask = Mask(secrets_of(vars(chat_model)))
        self._bound: tuple[Sequence[ToolDefinition], Any] | None = None

    async def send(
        self,
        message: str | BaseMessage | Sequence[BaseMessage],
        *,
        history: Sequence[BaseMessage] = (),
        tools: Collection[str] | None = None,
    ) -> ClientAnswer:
        """Send a message and the results of the tools it leads to, until the model answers.

        Args:
            message: The user's message, or a whole conversation.
            history: The earlier conversation: ``messages`` of the last answer. Calls without a result get an error.
            tools: Names of the tools to offer, or SOURCE/*; None for all, an empty list for none.

        Raises:
            UnknownNameError: A name does not belong to a tool.
            ToolClashError: Two of the tools have one name.
            ProviderError: The service failed. Errors of tools are returned to the model.
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
        """Send a message, yielding chunks and results as they arrive; the last event is the ClientAnswer."""
        return self._events(message, history, tools, streamed=True)

    async def aclose(self) -> None:
        """Close the model's connections, unless they are shared."""
        await close_model(self.chat_model)

    async def _events(
        self,
        message: str | BaseMessage | Sequence[BaseMessage],
        history: Sequence[BaseMessage],
        tools: Collection[str] | None,
        *,
        streamed: bool,
    ) -> AsyncGenerator[ClientEvent, None]:
        tools = (tools,) if isinstance(tools, str) else tools
        check_names(self.tools, tools)
        messages = self._conversation(message, history)
        feed = Feed() if streamed else None
        turn = self._engine.create_turn(ChatRequest(user_message=""), feed)
        turn.origin = "langchain"
        # Resolved once: what is bound to the model and what its calls run are the same tools, of the same sources.
        if tools is None or tools:
            turn.tools = self.tools.get_registry().offer(tools)
        dialogue = _Dialogue(self, turn, messages, turn.tools.list() if tools is None or tools else ())
        if feed is None:
            yield await dialogue.answer()
            return

        async def work(turn: ActiveTurn) -> None:
            feed.add(await dialogue.answer())

        async with contextlib.aclosing(read_turn(turn, feed, contextvars.copy_context(), work)) as events:
            async for event in events:
                if isinstance(event, AIMessageChunk | ToolMessage | ClientAnswer):
                    yield event

    def failure(self, error: Exception) -> FlexChatError:
        """Convert an exception of the chat model to a FlexChatError, with keys masked."""
        if isinstance(error, FlexChatError):
            return error
        model = self.model_name or None
        return provider_error(error, service=type(self.chat_model).__name__, model=model, mask=self._mask)

    @property
    def model_name(self) -> str:
        """The model's name; empty if it has none."""
        return named_model({"model": getattr(self.chat_model, "model", None)}) or ""

    def bound(self, tools: Sequence[ToolDefinition]) -> Any:
        """Return the model with these tools bound. The result is reused while they are the same."""
        if self._bound is None or self._bound[0] != tools:
            model = self.chat_model.bind_tools(encode_tools(tools)) if tools else self.chat_model
            self._bound = (tools, model)
        return self._bound[1]

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
            raise ChatRequestError(
                f"the conversation contains something other than LangChain messages: {first_line}"
            ) from None
        if self._prompt and not any(isinstance(message, SystemMessage) for message in messages):
            return [SystemMessage(content=self._prompt), *messages]
        return messages


class _NamedClient(LangChainClient):
    """A client that creates its model from the model's name and settings.

    Attributes:
        class_path: MODULE:CLASS of the model.
        extra: The extra of this package that installs it.
    """

    class_path: ClassVar[str]
    extra: ClassVar[str]

    def __init__(
        self, executor: Executor, *, model: str, prompt: str = "", max_iterations: int | None = None, **settings: Any
    ) -> None:
        chat_model = _chat_model(self.class_path, self.extra, model, settings)
        super().__init__(executor, chat_model, prompt=prompt, max_iterations=max_iterations)


class AnthropicClient(_NamedClient):
    """A client of Anthropic's models, over ChatAnthropic: ``pip install 'flexchat-langchain[anthropic]'``.

    Args:
        model: "claude-sonnet-4-5" …
        settings: ChatAnthropic's own: api_key (else ANTHROPIC_API_KEY), max_tokens, thinking …

    Raises:
        ImportError: langchain-anthropic is not installed.
        ValueError: ChatAnthropic does not take these settings.
    """

    class_path = "langchain_anthropic:ChatAnthropic"
    extra = "anthropic"


class OllamaClient(_NamedClient):
    """A client of an Ollama server, over ChatOllama: ``pip install 'flexchat-langchain[ollama]'``.

    Args:
        model: "qwen3" …
        settings: ChatOllama's own: base_url, num_ctx, reasoning …

    Raises:
        ImportError: langchain-ollama is not installed.
        ValueError: ChatOllama does not take these settings.
    """

    class_path = "langchain_ollama:ChatOllama"
    extra = "ollama"


class _Dialogue:
    """One message and its answers as LangChain messages; see flexchat.turn.rounds.Dialogue."""

    def __init__(
        self, client: LangChainClient, turn: ActiveTurn, messages: list[BaseMessage], tools: Sequence[ToolDefinition]
    ) -> None:
        self._client, self._turn, self._messages = client, turn, messages
        self._offered = tuple(tool.name for tool in tools)
        self._tools = [attrs.evolve(tool, name=turn.tools.wire_name(tool.name)) for tool in tools]
        self._last_answer: AIMessage = AIMessage(content="")
        self._paused = ""  # texts of the model before it paused and continued
        turn.records = []

    async def answer(self) -> ClientAnswer:
        """Run the tool loop until there is an answer."""
        turn, client = self._turn, self._client
        with in_turn(turn):
            async with turn.clock:
                why = await rounds(turn, self, self._offered, client.max_iterations)
        if not why:
            return self._ended()
        log.warning("the tool loop was ended: %s", why)
        self._messages.append(AIMessage(content=TOO_MANY_CALLS))
        return self._answered(TOO_MANY_CALLS, f"the tool loop was ended: {why}", max_iterations_reached=True)

    async def ask(self) -> ChatResult:
        """Send the conversation to the model and emit its chunks."""
        turn, whole = self._turn, None
        sent, started = await self._to_send(), time.perf_counter()
        turn.clock.activity = "the model's answer"
        try:
            model = self._client.bound(self._tools)
            if turn.sink.is_read:
                await turn.sink.seam()
                async for chunk in model.astream(sent):
                    whole = chunk if whole is None else whole + chunk
                    if isinstance(chunk, AIMessageChunk) and turn.sink.pass_on(chunk):
                        await turn.sink.room()
            else:
                whole = await model.ainvoke(sent)
            answer, result = _read(whole)
        except Exception as error:  # noqa: BLE001  any SDK may be below
            failure = self._client.failure(error)
            await self._report(started, error=failure)
            raise failure from None
        await self._report(started, result=result)
        turn.clock.activity = "the tool loop"
        self._last_answer = answer
        self._messages.append(answer)
        turn.result = result
        return result

    async def _to_send(self) -> list[BaseMessage]:
        """Pass the conversation through the plugins' gates and return the result.

        Raises:
            RequestRefusedError: A gate refused the request.
        """
        turn, hooks = self._turn, self._turn.parts.hooks
        if not hooks.gates_requests and not turn.sink.has_receiver(ModelRequestStarted):
            return [*self._messages]
        name, ours = self._client.model_name, from_langchain(self._messages)
        request = ModelRequest.from_messages(
            tuple(ours), info=turn.info, llm="langchain", model=name, options=ChatOptions()
        )
        request, warnings = await hooks.before_model_request(request)
        turn.warnings += [warning for warning in warnings if warning not in turn.warnings]
        if request.model != name:
            raise RequestRefusedError(
                f"a gate asked for a model other than {name}, which LangChain's clients cannot change"
            )
        if turn.sink.has_receiver(ModelRequestStarted):
            sent: dict[str, Any] = {"messages": request.all_messages, "options": request.options}
            await turn.sink.announce(ModelRequestStarted(info=turn.info, llm="langchain", model=name, **sent))
        messages = request.all_messages
        return [*self._messages] if messages == tuple(ours) else to_langchain(messages)

    async def _report(self, started: float, **outcome: Any) -> None:
        sink, info, model = self._turn.sink, self._turn.info, self._client.model_name
        if sink.has_receiver(ModelRequestFinished):
            elapsed_ms = (time.perf_counter() - started) * 1000
            await sink.emit(
                ModelRequestFinished(info=info, llm="langchain", model=model, elapsed_ms=elapsed_ms, **outcome)
            )

    def remember(self, result: ChatResult, calls: Sequence[ToolCall], records: Sequence[ToolCallRecord]) -> None:
        """Append the results; the answer is already among the messages."""
        if not calls:
            self._paused += result.content or ""
            return
        self._paused = ""
        limit = self._client.tools.table.max_result_chars
        answers = [
            result_message(call, record.result, max_chars=limit) if record.tool in self._offered else unknown_tool(call)
            for call, record in zip(result.tool_calls, records, strict=True)
        ]
        for message in pair_results(all_calls(self._last_answer), answers):
            self._messages.append(message)
            self._turn.sink.pass_on(message)

    def _ended(self) -> ClientAnswer:
        result = self._turn.result
        assert result is not None
        why = "" if next_step(result) is NextStep.FINISH else no_answer_reason(result.finish_reason)
        self._messages += pair_results(all_calls(self._last_answer), (), why=why)
        return self._answered(self._paused + (result.content or result.message.refusal or ""), why)

    def _answered(self, content: str, warning: str, *, max_iterations_reached: bool = False) -> ClientAnswer:
        warnings = (*self._turn.warnings, *([warning] if warning else []))
        return ClientAnswer(
            content=content,
            messages=tuple(self._messages),
            tool_calls=tuple(self._turn.records or ()),
            max_iterations_reached=max_iterations_reached,
            warnings=warnings,
        )


def _read(whole: Any) -> tuple[AIMessage, ChatResult]:
    """Return an answer in the form that is sent back, with an id for each call, and as a ChatResult."""
    if not isinstance(whole, AIMessage):
        raise TypeError(f"the model gave a {type(whole).__name__} for an answer")
    whole = with_ids(whole)
    ours = assistant_message(whole, keep_ids=True)
    reason = finish_reason(whole, has_calls=bool(ours.tool_calls))
    message = message_chunk_to_message(whole) if isinstance(whole, AIMessageChunk) else whole
    assert isinstance(message, AIMessage)
    return message, ChatResult(message=ours, finish_reason=reason)


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
        text = Mask(secrets_of(settings))(error_text(error))
    raise ValueError(text)
