"""The provider "langchain", over a LangChain chat model."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any

import attrs
from flexchat.host import Mask
from flexchat.plugin import ChatResult, run_in_thread
from flexchat_sdk import (
    MEDIA_TYPES,
    AnswerEnd,
    ChatEvent,
    ChatOptions,
    Deadline,
    MediaLimits,
    Message,
    ModelInfo,
    ProviderError,
    ProviderProtocolError,
    ProviderRequestError,
    ProviderTimeoutError,
    kind_of,
    known_text,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from .answers import ChunkDraft, assistant_message, finish_reason, raw_finish, usage_of
from .config import LangChainConfig
from .errors import provider_error
from .messages import as_sent
from .models import (
    address_of,
    close_model,
    dropped_settings,
    load_class,
    make_model,
    named_model,
    profile_of,
    secrets_of,
)
from .options import Prepared, combines_tools_and_format, prepared

_TURNS_TO_CLOSE = 10
_OVER = object()
_INPUTS = {"image": "image_inputs", "document": "pdf_inputs", "audio": "audio_inputs", "video": "video_inputs"}
"""Kinds of media to keys of LangChain's model profiles."""

_UNFINISHED = "the answer ended without a finish reason; it may be incomplete"


class LangChainProvider:
    """The provider of one llms entry. Creates one LangChain model per model name, on its first request.

    Args:
        config: The llms entry.
        make: Creates a model by name; default: from the class and settings of *config*.

    Raises:
        ValueError: The class does not exist or is not a chat model, or a setting is misspelt.

    Attributes:
        endpoint: scheme://host[:port] if the settings name it.
    """

    name = "langchain"

    def __init__(self, config: LangChainConfig, *, make: Callable[[str], BaseChatModel] | None = None) -> None:
        self._config = config
        self._class = load_class(config.class_path, config.settings)
        self._make = make or self._create
        dropped = dropped_settings(self._class, config.settings)
        self._warnings = [f"settings: {self._class.__name__} has no '{key}': it is left out" for key in dropped]
        self._models: dict[str, BaseChatModel] = {}
        self._making = asyncio.Lock()
        self._mask = Mask(secrets_of(config.settings))
        address = address_of(config.settings)
        if address:
            self.endpoint = address
        self._origin = " ".join(part for part in (config.class_path, address) if part)

    def tool_format(self, model: str) -> str:
        """Return the tool format, which all integrations accept."""
        return self.name

    def combines_tools_and_format(self, model: str) -> bool:
        """Return True if the class accepts both in one request; see ToolsOrFormatProvider."""
        return combines_tools_and_format(self._class)

    def media_limits(self, model: str) -> MediaLimits:
        """Return all types but those of a kind that the model's profile denies; see LimitedProvider."""
        known = self._models.get(model)
        profile = profile_of(self._class, model, self._config.settings) if known is None else known.profile or {}
        denied = {kind for kind, key in _INPUTS.items() if profile.get(key) is False}
        types = dict.fromkeys(each for each in MEDIA_TYPES if kind_of(each) not in denied)
        return MediaLimits(types=types, source="LangChain's profile of the model" if denied else "")

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Return the answer to one request; see ChatProvider."""
        deadline = Deadline(self._limit_s(options))
        try:
            with self._in_time(deadline, retryable=True):
                ready = await self._prepared(model, options)
                answer = await ready.runnable.ainvoke(as_sent(messages, self._origin), **ready.arguments)
            if not isinstance(answer, AIMessage):
                raise self._unreadable(f"gave a {type(answer).__name__} for an answer")
            return self._result(answer, assistant_message(answer, self._origin), ready.warnings)
        except Exception as error:  # noqa: BLE001  any SDK may be below
            failure = self._failure(error, model)
        finally:
            deadline.close()
        raise failure

    async def stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        """Stream the answer; see StreamingProvider. A model that cannot stream yields it in one piece."""
        deadline = Deadline(self._limit_s(options))
        try:
            async with contextlib.aclosing(self._events(messages, model, options, deadline)) as events:
                async for event in events:
                    yield event
            return
        except Exception as error:  # noqa: BLE001  any SDK may be below
            failure = self._failure(error, model)
        finally:
            deadline.close()
            await _generators_closed()
        await _generators_closed()  # The exception's traceback kept these generators alive until now.
        raise failure

    async def _events(
        self, messages: Sequence[Message], model: str, options: ChatOptions, deadline: Deadline
    ) -> AsyncGenerator[ChatEvent, None]:
        draft = ChunkDraft(self._origin)
        with self._in_time(deadline, retryable=True):
            ready = await self._prepared(model, options)
        chunks: Any = ready.runnable.astream(as_sent(messages, self._origin), **ready.arguments)
        async with contextlib.aclosing(chunks):
            while True:
                with self._in_time(deadline, retryable=draft.answer is None):
                    chunk = await anext(chunks, _OVER)
                if chunk is _OVER:
                    break
                if not isinstance(chunk, AIMessage):
                    raise self._unreadable(f"gave a {type(chunk).__name__} for a piece of an answer")
                for event in draft.add(chunk):
                    yield event
        if draft.answer is None:
            raise self._unreadable("ended without an answer")
        message = draft.message()
        for event in draft.end(message):
            yield event
        unfinished = () if raw_finish(draft.answer) else (_UNFINISHED,)
        yield AnswerEnd(self._result(draft.answer, message, (*ready.warnings, *draft.warnings, *unfinished)))

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the configured model: LangChain has no way to list those of a service."""
        configured = named_model(self._config.settings)
        return [ModelInfo(id=name) for name in dict.fromkeys([configured, *self._models]) if name]

    async def aclose(self) -> None:
        """Close and release the models."""
        while self._models:
            await close_model(self._models.popitem()[1])

    async def _prepared(self, model: str, options: ChatOptions) -> Prepared:
        # Locked, so that simultaneous first requests create one model; in a thread, because some classes load weights.
        async with self._making:
            if model not in self._models:
                self._models[model] = await run_in_thread(self._make, model)
        ready = prepared(self._models[model], options)
        return attrs.evolve(ready, warnings=(*self._warnings, *ready.warnings)) if self._warnings else ready

    def _create(self, model: str) -> BaseChatModel:
        try:
            return make_model(self._class, model, {"max_retries": 0}, self._config.settings)
        except ValueError as error:
            text = self._mask(str(error))
        raise ProviderRequestError(text, provider=self.name, model=model)

    def _result(self, answer: AIMessage, message: Any, warnings: tuple[str, ...]) -> ChatResult:
        metadata = answer.response_metadata if isinstance(answer.response_metadata, dict) else {}
        name = known_text(metadata.get("model_name")) or known_text(metadata.get("model"))
        id = known_text(answer.id)
        id = None if id is None or id.startswith(("lc_", "run-", "lc-")) else id
        return ChatResult(
            message=message,
            finish_reason=finish_reason(answer, has_calls=bool(message.tool_calls)),
            raw_finish=raw_finish(answer),
            usage=usage_of(answer),
            model=name,
            response_id=id,
            warnings=warnings,
        )

    def _limit_s(self, options: ChatOptions) -> float:
        limit = self._config.timeout_s
        return limit if options.timeout_s is None else min(limit, options.timeout_s)

    @contextlib.contextmanager
    def _in_time(self, deadline: Deadline, *, retryable: bool) -> Iterator[None]:
        """Cancel the body when the deadline expires."""
        deadline.wait(self._config.timeout_s)
        try:
            yield
        except asyncio.CancelledError:
            if not deadline.passed():
                raise
            text = f"{self._class.__name__}: no whole answer in time (timeout_s, or what was left of the turn)"
            raise ProviderTimeoutError(text, provider=self.name, retryable=retryable) from None
        finally:
            deadline.rest()

    def _failure(self, error: Exception, model: str) -> ProviderError:
        """Convert an exception; do not chain it, because it may quote a key."""
        if not isinstance(error, ProviderError):
            return provider_error(error, service=self._class.__name__, model=model, mask=self._mask)
        error.model = model
        return error

    def _unreadable(self, what: str) -> ProviderProtocolError:
        return ProviderProtocolError(f"{self._class.__name__} {what}", provider=self.name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._config.class_path!r})"


async def _generators_closed() -> None:
    """Wait until the generators of a stream are closed.

    LangChain closes only its outermost generator. The event loop closes the inner ones, which hold the response, once
    they are unreferenced; this yields to the loop often enough for that.
    """
    for _ in range(_TURNS_TO_CLOSE):
        await asyncio.sleep(0)
