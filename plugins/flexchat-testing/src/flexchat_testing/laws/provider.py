"""The laws of a provider, together."""

from __future__ import annotations

import asyncio
import inspect
import re
from typing import Any

from flexchat.plugin import ChatResult
from flexchat_sdk import ChatOptions, Embeddings, ModelInfo, ProviderError, UserMessage

from .answer_laws import AnswerLaws
from .error_laws import ErrorLaws
from .law import expect, law, refused, require, show
from .request_laws import RequestLaws
from .socket_laws import SocketLaws
from .stream_laws import StreamLaws
from .wire import Answer, Asked, ProviderKit


class ServiceLaws(ProviderKit):
    """A provider does what it claims, serves many at once, and releases what it holds."""

    @law()
    async def test_it_is_a_provider(self) -> None:
        """It has what ChatProvider requires, and ``supports`` lists everything else it can do."""
        async with self.serving() as (provider, _):
            for method in ("generate_chat", "list_models", "aclose"):
                is_async = inspect.iscoroutinefunction(getattr(provider, method, None))
                require(is_async, f"{type(provider).__name__}.{method} must be an async def")
            require(isinstance(provider.name, str) and bool(provider.name), "name is the ProviderType's name, a text")
            require(isinstance(provider.tool_format(self.model), str), "tool_format returns the name of a format")
            for word, method in (("streaming", "stream_chat"), ("embeddings", "embed")):
                has = hasattr(provider, method)
                require(
                    has == (word in self.supports),
                    f"{type(provider).__name__} {'has' if has else 'has no'} {method}: "
                    f'{"add" if has else "take"} "{word}" {"to" if has else "out of"} supports',
                )
            if "streaming" in self.supports:
                hello = (UserMessage(content="Hello"),)
                stream = provider.stream_chat(hello, self.model, ChatOptions())  # type: ignore[attr-defined]
                if inspect.iscoroutine(stream):
                    stream.close()
                require(
                    inspect.isasyncgen(stream),
                    "stream_chat must return an async generator, so that closing it runs its finally: async def with "
                    "yield, or what Service.pieces returns",
                )
            endpoint = getattr(provider, "endpoint", None)
            problem = f"endpoint is scheme://host[:port], got {endpoint!r}"
            require(endpoint is None or re.fullmatch(r"https?://[^/\s]+", str(endpoint)), problem)

    @law("http")
    async def test_exchanges_side_by_side_do_not_mix(self, stream: bool) -> None:
        """One provider serves many turns at once: keep nothing of an exchange in the provider."""

        def echo(request: Asked, stream: bool) -> Answer:
            words = re.findall(r"say-\d+", request.text)
            require(len(words) == 1, f"a request holds the messages of another exchange: {words}")
            return self.answer(self.text_reply(words[0]), stream=stream)

        async with self.serving(by=lambda exchanges, stream=stream: echo(exchanges, stream)) as (provider, _):  # type: ignore[misc]
            expected = [f"say-{number}" for number in range(20)]
            exchanges = [self.chat(provider, (UserMessage(content=text),), stream=stream) for text in expected]
            results: list[ChatResult] = await asyncio.gather(*exchanges)
        answers = [result.content for result in results]
        require(answers == expected, f"of 20 exchanges at once these got another's answer: {_mixed(expected, answers)}")

    @law("http")
    async def test_closing_gives_everything_back(self, stream: bool) -> None:
        """After an exchange its response is closed; after aclose the transport is."""
        async with self.serving(self.answer(self.text_reply("Hi"), stream=stream)) as (provider, service):
            await self.chat(provider, stream=stream)
            require(service.open_answers == 0, "after an exchange the response is still open")
        require(service.is_closed, "aclose did not close the transport")

    @law("models")
    async def test_models_are_listed(self) -> None:
        """list_models returns a ModelInfo for each model, in the service's order, with the id a request would name."""
        ids = ["kit-model", "kit-model:small", "vendor/other-model.v2"]
        async with self.serving(self.answer(self.models_reply(ids))) as (provider, _):
            models = await provider.list_models()
        require(all(isinstance(model, ModelInfo) for model in models), f"list_models returns ModelInfo: {show(models)}")
        expect([model.id for model in models], ids, "the models that are listed")
        async with self.serving(self.answer(self.models_reply([]))) as (provider, _):
            require(len(await provider.list_models()) == 0, "an empty list of models is an empty list")

    @law("models")
    async def test_refusing_to_list_models_is_a_provider_error(self) -> None:
        """A key that is refused is so for the list of models too."""
        status, body = self.error_reply("auth") or (401, {})
        async with self.serving(self.answer(body, status=status)) as (provider, _):
            await refused(provider.list_models(), ProviderError, f"list_models, refused with status {status},")

    @law("embeddings")
    async def test_vectors_keep_order_and_count(self) -> None:
        """One vector for each text, in the order of the texts, in however many requests: texts may be thousands."""
        for count in (1, 3, 700):
            texts = [f"text {number}" for number in range(count)]
            async with self.serving(by=self._embedded) as (provider, _):
                embeddings: Embeddings = await provider.embed(texts, self.model)  # type: ignore[attr-defined]
            require(isinstance(embeddings, Embeddings), f"embed returns Embeddings, got {show(embeddings)}")
            require(len(embeddings.vectors) == count, f"{count} texts, {len(embeddings.vectors)} vectors")
            wrong = [number for number, vector in enumerate(embeddings.vectors) if [*vector] != _vector(texts[number])]
            require(not wrong, f"of {count} vectors these belong to another text: {wrong[:10]}")

    @law("embeddings")
    async def test_a_wrong_number_of_vectors_is_an_error(self) -> None:
        """A vector too few or too many would give documents to the wrong texts: a ProviderError."""
        for count in (0, 1, 3):
            answer = self.answer(self.embed_reply([[float(number), 1.0] for number in range(count)]))
            async with self.serving(answer) as (provider, service):
                try:
                    embeddings = await provider.embed(["one", "two"], self.model)  # type: ignore[attr-defined]
                except ProviderError:
                    continue
                if count == 1 and len(service.asked) > 1 and len(embeddings.vectors) == 2:
                    continue  # it has asked again, for one text at a time
            raise AssertionError(f"two texts, {count} vectors: expected a ProviderError, got {show(embeddings)}")

    @law("embeddings")
    async def test_a_vector_is_numbers_alone(self) -> None:
        """Null or a text in a vector is a ProviderError: a store that gets it fails far from the cause."""
        strange: Any
        for strange in (["x", 1.0], [None, 1.0], [[1.0], 1.0]):
            async with self.serving(self.answer(self.embed_reply([strange]))) as (provider, _):
                embedding = provider.embed(["one"], self.model)  # type: ignore[attr-defined]
                await refused(embedding, ProviderError, f"the vector {strange}")

    @law("embeddings")
    async def test_refusing_vectors_is_a_provider_error(self) -> None:
        """A refusal and garbage are ProviderErrors for vectors too."""
        status, body = self.error_reply("auth") or (401, {})
        garbage = (b"", b"null", b"{}", b"not JSON", b'{"cut": ', b"[" * 100_000)
        answers = [self.answer(body, status=status), *(self.answer(text) for text in garbage)]
        for answer in answers:
            async with self.serving(answer) as (provider, _):
                embedding = provider.embed(["one"], self.model)  # type: ignore[attr-defined]
                await refused(embedding, ProviderError, show(answer, 120))

    def _embedded(self, request: Asked) -> Answer:
        return self.answer(self.embed_reply([_vector(text) for text in self.read_embed_texts(request.body)]))


def _vector(text: str) -> list[float]:
    return [float(text.removeprefix("text ")), 1.0]


def _mixed(expected: list[str], answers: list[str | None]) -> list[tuple[str, str | None]]:
    return [(a, b) for a, b in zip(expected, answers, strict=True) if a != b][:5]


class ProviderConformance(AnswerLaws, RequestLaws, StreamLaws, ErrorLaws, ServiceLaws, SocketLaws):
    """The laws of every provider, checked without a network.

    Subclass it, set ``supports``, and write the service's answers in its own wire format: ``text_reply``,
    ``error_reply``, and the methods of each capability (wire.py lists them all). The kit serves these answers over the
    transport passed to ``make_provider``.

        class TestParrot(ProviderConformance):
            supports = {"http", "streaming", "tools"}
            tool_formats = {"parrot": encode_tools}

            def make_provider(self, transport):
                return Parrot(ParrotConfig(api_key=self.key), transport=transport)

            def text_reply(self, text, *, finish="stop"):
                return {"text": text, "finish": finish}
            …
    """
