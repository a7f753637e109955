"""A configured FlexChat as a LangChain chat model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from operator import itemgetter
from pathlib import Path
from typing import Any

from flexchat import FlexChat, SyncFlexChat
from flexchat_sdk import to_bytes
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LangSmithParams, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.output_parsers import JsonOutputParser, PydanticOutputParser
from langchain_core.output_parsers.base import OutputParserLike
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableMap, RunnablePassthrough
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool
from langchain_core.utils.pydantic import is_basemodel_subclass
from pydantic import AliasChoices, ConfigDict, Field, PrivateAttr, model_validator

from .questions import read_question
from .running import Running
from .turns import Answer, answer, pieces

_CONFIGURED = ("timeout", "max_retries", "api_key", "streaming")
"""Of LangChain's standard parameters those that the configuration has for each of its services."""


class FlexChatModel(BaseChatModel):
    """A configured FlexChat as a chat model: its phases select the rule, and its tools run inside.

    Calls of tools bound through LangChain are returned in ``tool_calls``, for the caller to run; calls of the
    configuration's own tools never appear there. ``response_metadata["flexchat"]`` holds the details of an answer:
    topic, intent, rule, service, calls of own tools, citations, warnings.

    See running.Running for the event loop it runs on. LangChain's standard parameters timeout, max_retries, api_key and
    streaming are accepted and ignored: the configuration sets them for each service.

    Example:
        model = FlexChatModel(config="flexchat.toml")
        model.bind_tools([get_weather]).invoke("What is the weather in Rome?").tool_calls

    Attributes:
        config: Path of a configuration file, or a mapping. Exactly one of config and chat is required.
        chat: A FlexChat or SyncFlexChat.
        model: Overrides the rule's model, but not its service.
        temperature, max_tokens, stop: Override the rule's values.
    """

    config: str | Path | Mapping[str, Any] | None = Field(default=None, exclude=True, repr=False)
    chat: FlexChat | SyncFlexChat | None = Field(default=None, exclude=True, repr=False)
    model: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    stop: list[str] | None = Field(default=None, validation_alias=AliasChoices("stop", "stop_sequences"))
    _running: Running = PrivateAttr()
    _digest: str = PrivateAttr()

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _check_source(cls, values: Any) -> Any:
        if isinstance(values, dict) and (values.get("config") is None) == (values.get("chat") is None):
            raise ValueError("FlexChatModel needs either config= (a file or a mapping) or chat= (a FlexChat)")
        return {k: v for k, v in values.items() if k not in _CONFIGURED} if isinstance(values, dict) else values

    def model_post_init(self, context: Any, /) -> None:
        """Create the chat from the configuration.

        Raises:
            ConfigError: The configuration is invalid; lists all problems.
        """
        super().model_post_init(context)
        source = self.chat if self.chat is not None else self.config
        assert source is not None
        self._running = Running(source)
        self._digest = _digest(self._running.chat)

    def close(self) -> None:
        """Close the chat created from a configuration; otherwise it is closed when the program ends.

        A chat passed in is closed by its owner, except a FlexChat that was called synchronously.
        """
        self._running.close()

    @property
    def _llm_type(self) -> str:
        return "flexchat"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        # The key of LangChain's caches: models with different configurations must not share answers.
        return {"configuration": self._digest, "model": self.model, "temperature": self.temperature}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        params = super()._get_ls_params(stop=stop or self.stop, **kwargs)
        params["ls_provider"] = "flexchat"
        params.setdefault("ls_model_name", "flexchat")
        return params

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: Any = None,
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools whose calls the caller runs.

        Args:
            tool_choice: "auto", "any" (a tool must be called), "none", or the name of the tool to call.
            strict: Make the service enforce the schemas.
            kwargs: Further options: parallel_tool_calls, temperature, …
        """
        bound = [convert_to_openai_tool(tool, strict=strict) for tool in tools]
        choice = {} if tool_choice is None else {"tool_choice": tool_choice}
        return self.bind(tools=bound, **choice, **kwargs)

    def with_structured_output(
        self,
        schema: Any,
        *,
        include_raw: bool = False,
        method: str = "json_schema",
        strict: bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, Any]:
        """Bind a response format. FlexChat validates answers, and asks the model again if they do not match.

        Args:
            schema: A pydantic class, a TypedDict, a JSON Schema, or a tool in OpenAI's format.
            include_raw: Return {"raw", "parsed", "parsing_error"}.
            method: "json_schema"; "json_mode" for any JSON object, described by the prompt; "function_calling".
            strict: Make the service enforce the schema.

        Raises:
            ValueError: The method or an argument is unknown.
        """
        if method == "function_calling":
            return super().with_structured_output(schema, include_raw=include_raw, **kwargs)
        if method not in ("json_schema", "json_mode"):
            raise ValueError(f"method is json_schema, json_mode or function_calling, not {method!r}")
        if kwargs:
            raise ValueError(f"with_structured_output does not know {', '.join(kwargs)}")
        json_schema = convert_to_json_schema(schema)
        name = re.sub(r"[^A-Za-z0-9_-]", "_", str(json_schema.get("title") or "response"))[:64]
        form = {"type": "json_schema", "json_schema": {"name": name, "schema": json_schema, "strict": strict}}
        llm = self.bind(
            response_format={"type": "json_object"} if method == "json_mode" else form,
            ls_structured_output_format={"kwargs": {"method": method}, "schema": json_schema},
        )
        is_class = isinstance(schema, type) and is_basemodel_subclass(schema)
        parser: OutputParserLike[Any] = PydanticOutputParser(pydantic_object=schema) if is_class else JsonOutputParser()
        if not include_raw:
            return llm | parser
        parsed = RunnablePassthrough.assign(parsed=itemgetter("raw") | parser, parsing_error=lambda _: None)
        failed = RunnablePassthrough.assign(parsed=lambda _: None)
        return RunnableMap(raw=llm) | parsed.with_fallbacks([failed], exception_key="parsing_error")

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        question = read_question(messages, self._options(stop, kwargs))
        return _result(self._running.run(lambda chat: answer(chat, question)))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        question = read_question(messages, self._options(stop, kwargs))
        return _result(await self._running.arun(lambda chat: answer(chat, question)))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        question = read_question(messages, self._options(stop, kwargs))
        has_text = False
        with closing(self._running.iterate(lambda chat: pieces(chat, question))) as parts:
            for piece in parts:
                chunk, has_text = _chunk(piece, has_text), True
                if run_manager is not None:
                    run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        question = read_question(messages, self._options(stop, kwargs))
        has_text = False
        async with aclosing(self._running.aiterate(lambda chat: pieces(chat, question))) as parts:
            async for piece in parts:
                chunk, has_text = _chunk(piece, has_text), True
                if run_manager is not None:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk

    def _options(self, stop: list[str] | None, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        own = {"model": self.model, "temperature": self.temperature, "max_tokens": self.max_tokens}
        return {**own, **kwargs, "stop": tuple((self.stop if stop is None else stop) or ())}


def _digest(chat: FlexChat) -> str:
    tools = [(tool.source, tool.name, tool.description, tool.parameters) for tool in chat.tools.get_registry().list()]
    return hashlib.sha256(repr((chat.config, tools)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _result(answer: Answer) -> ChatResult:
    message = AIMessage(
        content=answer.text,
        tool_calls=[
            {"type": "tool_call", "id": call.id, "name": call.name, "args": dict(call.arguments or {})}
            for call in answer.message.tool_calls
        ],
        **answer.fields(),
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


def _chunk(piece: str | Answer, has_text: bool) -> ChatGenerationChunk:
    """Convert a piece to a LangChain chunk; an Answer keeps its text only if none was streamed before it."""
    if isinstance(piece, str):
        return ChatGenerationChunk(message=AIMessageChunk(content=piece))
    message = AIMessageChunk(
        content="" if has_text else piece.text,
        tool_call_chunks=[
            {
                "type": "tool_call_chunk",
                "id": call.id,
                "name": call.name,
                "args": to_bytes(dict(call.arguments or {})).decode(),
                "index": number,
            }
            for number, call in enumerate(piece.message.tool_calls)
        ],
        chunk_position="last",
        **piece.fields(),
    )
    return ChatGenerationChunk(message=message)
