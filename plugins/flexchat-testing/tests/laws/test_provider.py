"""Each law of a provider catches a provider that breaks it, and says what is wrong."""

import asyncio
import contextlib
import itertools
import json
import unittest

import attrs
import httpx
import pytest
from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AnswerEnd,
    AssistantMessage,
    ChatOptions,
    Embeddings,
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRequestError,
    ReasoningPart,
    TextDelta,
    TextPart,
)
from flexchat_testing import ProviderConformance, says
from flexchat_testing.laws import error_laws, request_laws, stream_laws
from flexchat_testing.laws.law import laws_of

KEY = ProviderConformance.key


class Wrapped:
    """A provider around a right one; subclasses make it wrong."""

    def __init__(self, inner):
        self.inner = inner
        self.name, self.endpoint = inner.name, inner.endpoint

    def tool_format(self, model):
        return self.inner.tool_format(model)

    async def generate_chat(self, messages, model, options):
        try:
            return self.result(await self.inner.generate_chat(self.messages(messages), model, self.options(options)))
        except ProviderError as error:
            raise self.error(error) from None

    async def stream_chat(self, messages, model, options):
        try:
            stream = self.inner.stream_chat(self.messages(messages), model, self.options(options))
            async with contextlib.aclosing(stream):
                async for event in stream:
                    yield AnswerEnd(self.result(event.result)) if isinstance(event, AnswerEnd) else self.event(event)
        except ProviderError as error:
            raise self.error(error) from None

    async def list_models(self):
        return await self.inner.list_models()

    async def aclose(self):
        await self.inner.aclose()

    def messages(self, messages):
        return messages

    def options(self, options):
        return options

    def result(self, result):
        return result

    def event(self, event):
        return event

    def error(self, error):
        return error


class Edited(httpx.AsyncBaseTransport):
    """A transport that changes what goes out, or what comes in."""

    def __init__(self, inner, body=None, pieces=None):
        self.inner, self.body, self.pieces = inner, body, pieces

    async def handle_async_request(self, request):
        content = await request.aread()
        if self.body is not None and content:
            body = json.loads(content)
            self.body(body)
            request = httpx.Request(request.method, request.url, content=json.dumps(body).encode())
        response = await self.inner.handle_async_request(request)
        if self.pieces is not None:
            response.stream = self.pieces(response.stream)
        return response

    async def aclose(self):
        await self.inner.aclose()


class Pieces(httpx.AsyncByteStream):
    """A body whose pieces are changed on their way."""

    def __init__(self, inner, change, last=b""):
        self.inner, self.change, self.last = inner, change, last

    async def __aiter__(self):
        async for piece in self.inner:
            yield self.change(piece)
        if self.last:
            yield self.last

    async def aclose(self):
        await self.inner.aclose()


def with_parts(result, *parts, **rest):
    return attrs.evolve(result, message=attrs.evolve(result.message, parts=tuple(parts)), **rest)


class Strips(Wrapped):
    def result(self, result):
        parts = [attrs.evolve(p, text=p.text.strip()) if isinstance(p, TextPart) else p for p in result.message.parts]
        return with_parts(result, *parts)


class SkipsBlanks(Wrapped):
    """Takes a piece without a word in it for an empty one."""

    def result(self, result):
        return result if (result.content or "").strip() else with_parts(result)


class NeedsText(Wrapped):
    def result(self, result):
        if not result.content and not result.tool_calls:
            raise ProviderProtocolError("the answer is empty")
        return result


class AlwaysStops(Wrapped):
    def result(self, result):
        return attrs.evolve(result, finish_reason="tool_calls" if result.tool_calls else "stop")


class CountsNothing(Wrapped):
    def result(self, result):
        return attrs.evolve(result, usage=None)


class DropsNulls(Wrapped):
    def result(self, result):
        parts = [
            attrs.evolve(p, arguments={k: v for k, v in p.arguments.items() if v}) if isinstance(p, ToolCall) else p
            for p in result.message.parts
        ]
        return with_parts(result, *parts)


class TurnsCallsRound(Wrapped):
    def result(self, result):
        return with_parts(result, *result.message.parts[::-1])


class TrustsTheFinish(Wrapped):
    def result(self, result):
        return attrs.evolve(result, finish_reason=result.raw_finish)


class CallsOrText(Wrapped):
    def result(self, result):
        return with_parts(result, *(result.tool_calls or result.message.parts))


class SendsAllData(Wrapped):
    def messages(self, messages):
        return [
            attrs.evolve(
                m, provider_data=attrs.evolve(m.provider_data, scope=self.inner.name, origin=self.inner.endpoint)
            )
            if isinstance(m, AssistantMessage) and m.provider_data
            else m
            for m in messages
        ]


class WritesIntoOptions(Wrapped):
    def options(self, options):
        if options.extra:
            options.extra["kit"]["seen"] = True
        return options


class TellsThoughts(Wrapped):
    def messages(self, messages):
        def told(part):
            return TextPart(text=part.text) if isinstance(part, ReasoningPart) else part

        return [
            attrs.evolve(m, parts=tuple(map(told, m.parts))) if isinstance(m, AssistantMessage) else m for m in messages
        ]


class DropsBrokenCalls(Wrapped):
    def messages(self, messages):
        def kept(message):
            return tuple(p for p in message.parts if not (isinstance(p, ToolCall) and p.arguments is None))

        return [attrs.evolve(m, parts=kept(m)) if isinstance(m, AssistantMessage) else m for m in messages]


class TakesMediaAndDropsThem(Wrapped):
    def takes_in_results(self, model, part):
        return True


class ForgetsTheModelInStreams(Wrapped):
    async def stream_chat(self, messages, model, options):
        async for event in super().stream_chat(messages, model, options):
            yield AnswerEnd(attrs.evolve(event.result, model=None)) if isinstance(event, AnswerEnd) else event


class CountsPartsFromOne(Wrapped):
    def event(self, event):
        return TextDelta(event.index + 1, event.text) if isinstance(event, TextDelta) else event


class WaitsForTheEnd(Wrapped):
    async def stream_chat(self, messages, model, options):
        for event in [event async for event in super().stream_chat(messages, model, options)]:
            yield event


KEPT = []


class LeavesStreamsOpen(Wrapped):
    async def stream_chat(self, messages, model, options):
        stream = self.inner.stream_chat(messages, model, options)
        KEPT.append(stream)  # else it would be collected, and closed by that
        async for event in stream:
            yield event


class TakesHalfAnAnswer(Wrapped):
    async def stream_chat(self, messages, model, options):
        try:
            async for event in self.inner.stream_chat(messages, model, options):
                yield event
        except ProviderConnectionError:
            yield AnswerEnd(says("half an answ"))


class OneError(Wrapped):
    def error(self, error):
        if isinstance(error, ProviderRateLimitError):
            return ProviderRequestError(str(error), provider="parrot", status=error.status)
        return error


class NeverWaits(Wrapped):
    def error(self, error):
        error.retry_after_s = None
        return error


class ShowsTheKey(Wrapped):
    def error(self, error):
        error.args = (f"{error} (with key {KEY})",)
        return error


class RaisesKeyErrors(Wrapped):
    def error(self, error):
        return KeyError("choices") if isinstance(error, ProviderProtocolError) else error


class NeedsUsage(Wrapped):
    def result(self, result):
        assert result.usage.input_tokens + 1 > 0  # None where a service does not tell
        return result


class RaisesOSErrors(Wrapped):
    def error(self, error):
        return OSError(str(error)) if isinstance(error, ProviderConnectionError) else error


class IgnoresTimeouts(Wrapped):
    def options(self, options):
        return attrs.evolve(options, timeout_s=None)


class CannotBeCancelled(Wrapped):
    async def generate_chat(self, messages, model, options):
        try:
            return await self.inner.generate_chat(messages, model, options)
        except asyncio.CancelledError:
            raise ProviderConnectionError("cancelled") from None


class HasAnEmbed(Wrapped):
    async def embed(self, texts, model, **rest):
        return Embeddings(vectors=())


class KeepsTheConversation(Wrapped):
    async def generate_chat(self, messages, model, options):
        self.last = messages
        await asyncio.sleep(0)
        return await self.inner.generate_chat(self.last, model, options)


class NeverCloses(Wrapped):
    async def aclose(self):
        pass


class SortsModels(Wrapped):
    async def list_models(self):
        return sorted(await self.inner.list_models(), key=lambda model: model.id)[::-1]


class HidesRefusals(Wrapped):
    async def list_models(self):
        try:
            return await self.inner.list_models()
        except ProviderError:
            return ()


class Embeds(Wrapped):
    """Embeds right, 500 texts a request."""

    async def embed(self, texts, model, **rest):
        vectors = []
        for at in range(0, len(texts), 500):
            vectors += await self.some(texts[at : at + 500])
        return Embeddings(vectors=tuple(vectors))

    async def some(self, texts):
        answer = await self.inner._service.http.post("/embed", json.dumps({"texts": texts}).encode())
        try:
            return self.read(answer, texts)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise ProviderProtocolError("unreadable vectors") from error

    def read(self, answer, texts):
        vectors = json.loads(answer.body)["vectors"]
        if len(vectors) != len(texts):
            raise ValueError(len(vectors))
        if not all(isinstance(number, int | float) for vector in vectors for number in vector):
            raise ProviderProtocolError("a vector holds something else than numbers")
        return vectors


class EmbedsBackwards(Embeds):
    def read(self, answer, texts):
        return super().read(answer, texts)[::-1]


class EmbedsSome(Embeds):
    def read(self, answer, texts):
        return json.loads(answer.body)["vectors"]


class EmbedsOrBreaks(Embeds):
    async def some(self, texts):
        answer = await self.inner._service.http.post("/embed", json.dumps({"texts": texts}).encode())
        return self.read(answer, texts)


def one_id(body):
    for message in body["messages"]:
        if message["role"] == "tool":
            message["call_id"] = "c0"


def in_ascii(body):
    for message in body["messages"]:
        message["text"] = message["text"].encode("ascii", "replace").decode()


def without_zeros(body):
    for name in [name for name, value in body.items() if value == 0 and value is not False]:
        del body[name]


def without_descriptions(body):
    for tool in body.get("tools", ()):
        tool.pop("description")


def each_piece_by_itself(stream):
    return Pieces(stream, lambda piece: piece.decode("utf-8", "replace").encode())


def ended_by_force(stream):
    return Pieces(stream, lambda piece: piece, b'\n\ndata: {"finish": "stop"}\n\n')


def changed(old, new):
    return lambda stream: Pieces(stream, lambda piece: piece.replace(old, new))


counting = itertools.count()


def counted(tools):
    return [{"name": tool.name, "number": next(counting)} for tool in tools]


# The law, what breaks it (a provider around the right one, a change of requests or of answers), a word of the verdict.
WRONG = {
    "test_text_arrives_unchanged": ({"provider": Strips}, "the model said"),
    "test_an_empty_answer_is_an_answer": ({"provider": NeedsText}, "the answer is empty"),
    "test_the_end_of_an_answer_is_told": ({"provider": AlwaysStops}, "finish_reason is 'stop'"),
    "test_a_wrong_type_loses_nothing_silently": ({"pieces": changed(b'"text": true', b'"text": ""')}, "looks whole"),
    "test_what_a_service_adds_costs_nothing": ({"pieces": changed(b'"kit_added": 7', b'"text": 7')}, "cannot be read"),
    "test_a_character_cut_in_two_is_one": ({"pieces": changed(b"\\ud83d", b"?")}, "the model said"),
    "test_tokens_are_counted": ({"provider": CountsNothing}, "usage has None"),
    "test_any_json_object_survives_as_arguments": ({"provider": DropsNulls}, "the arguments are"),
    "test_parallel_calls_keep_their_order_and_get_ids_of_their_own": ({"provider": TurnsCallsRound}, "in this order"),
    "test_calls_beside_stop_are_calls": ({"provider": TrustsTheFinish}, "finish_reason of an answer with calls"),
    "test_text_beside_calls_is_kept": ({"provider": CallsOrText}, "called one tool"),
    "test_each_result_comes_back_to_its_call": ({"body": one_id}, "no call before it has"),
    "test_opaque_data_returns_to_its_origin_and_nowhere_else": ({"provider": SendsAllData}, "did not make it"),
    "test_a_request_is_json_whatever_is_said": ({"body": in_ascii}, "the user said"),
    "test_each_message_is_sent_once_and_in_order": (
        {"body": lambda body: body["messages"].insert(0, body["messages"][-1])},
        "each of four messages",
    ),
    "test_a_request_leaves_its_input_alone": ({"provider": WritesIntoOptions}, "changed the messages or options"),
    "test_without_tools_nothing_is_said_of_tools": (
        {"body": lambda body: body.setdefault("tools", [])},
        "the request has tools",
    ),
    "test_the_tools_are_sent": ({"body": without_descriptions}, "lacks"),
    "test_zero_is_sent_as_zero": ({"body": without_zeros}, "temperature=0"),
    "test_every_option_is_honoured_or_warned_of": ({"body": lambda body: body.pop("stop", None)}, "stop=('HALT',)"),
    "test_extra_is_merged_into_the_request": ({"body": lambda body: body.pop("kit_extra", None)}, "extra is not"),
    "test_a_conversation_of_another_provider_goes_on": (
        {"provider": TellsThoughts},
        "another provider's model thought",
    ),
    "test_a_call_that_could_not_be_read_can_be_sent_back": ({"provider": DropsBrokenCalls}, "the broken call"),
    "test_media_in_results_are_sent_where_they_are_taken": ({"provider": TakesMediaAndDropsThem}, "0 times"),
    "test_a_tool_format_is_pure": ({"tool_formats": {"kit-parrot": counted}}, "something else the second time"),
    "test_a_streamed_answer_is_the_whole_answer": ({"provider": ForgetsTheModelInStreams}, "streamed:"),
    "test_events_come_in_order": ({"provider": CountsPartsFromOne}, "names part 1"),
    "test_any_cut_of_a_stream_gives_the_same_answer": ({"pieces": each_piece_by_itself}, "cut into pieces"),
    "test_pieces_are_passed_on_as_they_come": ({"provider": WaitsForTheEnd}, "no TextDelta was passed on"),
    "test_closing_a_stream_closes_the_response": ({"provider": LeavesStreamsOpen}, "still open"),
    "test_a_stream_that_breaks_is_an_error": ({"provider": TakesHalfAnAnswer}, "the connection broke after"),
    "test_a_stream_that_stops_short_does_not_look_finished": ({"pieces": ended_by_force}, "looks finished"),
    "test_each_refusal_has_its_class": ({"provider": OneError}, '"rate" is a ProviderRateLimitError'),
    "test_the_wait_a_service_asks_for_is_told": ({"provider": NeverWaits}, "retry_after_s is None"),
    "test_the_key_is_in_no_error_and_no_repr": ({"provider": ShowsTheKey}, "the key is in this error"),
    "test_garbage_is_a_provider_error": ({"provider": RaisesKeyErrors}, "raised KeyError, not ProviderError"),
    "test_a_strange_answer_is_read_or_refused": ({"provider": NeedsUsage}, ", not ProviderError"),
    "test_a_broken_connection_is_a_provider_error": ({"provider": RaisesOSErrors}, "raised OSError"),
    "test_every_fault_of_a_server_is_an_error_or_the_answer": ({"provider": RaisesOSErrors}, "raised OSError"),
    "test_no_answer_in_time_is_a_timeout": ({"provider": IgnoresTimeouts}, "ended nothing in"),
    "test_cancelling_ends_an_exchange": ({"provider": CannotBeCancelled}, "must end with CancelledError"),
    "test_it_is_a_provider": ({"provider": HasAnEmbed}, 'add "embeddings" to supports'),
    "test_exchanges_side_by_side_do_not_mix": ({"provider": KeepsTheConversation}, "another's answer"),
    "test_closing_gives_everything_back": ({"provider": NeverCloses}, "did not close the transport"),
    "test_models_are_listed": ({"provider": SortsModels}, "the models that are listed: expected"),
    "test_refusing_to_list_models_is_a_provider_error": (
        {"provider": HidesRefusals},
        "list_models, refused with status 401, must raise ProviderError, and returned",
    ),
    "test_vectors_keep_order_and_count": ({"provider": EmbedsBackwards}, "belong to another text"),
    "test_a_wrong_number_of_vectors_is_an_error": ({"provider": EmbedsSome}, "two texts, 0 vectors"),
    "test_a_vector_is_numbers_alone": ({"provider": EmbedsSome}, "the vector ['x', 1.0]"),
    "test_refusing_vectors_is_a_provider_error": ({"provider": EmbedsOrBreaks}, ""),
}


def conformance(base, provider=None, body=None, pieces=None, **attributes):
    """The right conformance class, with something wrong in it."""
    embeds = provider is not None and issubclass(provider, Embeds)

    def make_provider(self, transport):
        if body is not None or pieces is not None:
            transport = Edited(transport, body, pieces)
        made = base.make_provider(self, transport)
        return made if provider is None else provider(made)

    def make_provider_at(self, address, **times):
        made = base.make_provider_at(self, address, **times)
        return made if provider is None else provider(made)

    return type(
        "Wrong",
        (base,),
        {
            "make_provider": make_provider,
            "make_provider_at": make_provider_at,
            "supports": base.supports | ({"embeddings"} if embeds else set()),
            "read_embed_texts": lambda self, body: body["texts"],
            "embed_reply": lambda self, vectors: {"vectors": vectors},
            **attributes,
        },
    )


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch):
    monkeypatch.setattr(error_laws, "_PATIENCE_S", 0.2)
    monkeypatch.setattr(stream_laws, "_PATIENCE_S", 0.2)


@pytest.mark.parametrize("name", [name for name, _ in laws_of(ProviderConformance)])
def test_the_provider_that_is_written_for_a_beginning_keeps_every_law(parrot, name):
    """The provider of ``flexchat new provider``, which all wrong ones are made of; here it can embed too."""
    getattr(conformance(parrot.KitParrotConformance, Embeds)(), name)()


@pytest.mark.parametrize("name", WRONG)
def test_a_law_catches_a_provider_that_breaks_it(parrot, name):
    """The verdict says what is wrong, and which law it is about."""
    flaws, words = WRONG[name]
    wrong = conformance(parrot.KitParrotConformance, **flaws)()

    with pytest.raises(Exception) as caught:  # the plugin's own, where it is no AssertionError
        getattr(wrong, name)()

    assert not isinstance(caught.value, unittest.SkipTest)
    assert words in str(caught.value)
    if isinstance(caught.value, AssertionError):
        assert any(note.startswith("the law: ") for note in caught.value.__notes__)


def test_an_answer_of_blanks_is_a_text(parrot):
    """Models write them a piece at a time, so a reader that skips them loses the spaces of tables and code."""
    with pytest.raises(AssertionError, match="the model said ' '"):
        conformance(parrot.KitParrotConformance, SkipsBlanks)().test_text_arrives_unchanged()


def test_every_law_is_shown_to_catch_something():
    """No law may be added without a provider that breaks it."""
    laws = {name for name, _ in laws_of(ProviderConformance)} - {"test_no_law_is_replaced"}

    assert laws == WRONG.keys()


def test_a_law_that_needs_what_a_provider_lacks_is_skipped(parrot):
    """supports decides, and the reason names the capability."""
    with pytest.raises(unittest.SkipTest, match="embeddings"):
        parrot.KitParrotConformance().test_vectors_keep_order_and_count()


@pytest.mark.parametrize("method", ["make_provider", "text_reply"])
def test_what_an_author_has_not_written_is_named(method):
    """The kit says which method is missing, and why it is needed."""

    class Empty(ProviderConformance):
        supports = frozenset({"http"})

    with pytest.raises(NotImplementedError, match=rf"Empty must write {method}"):
        getattr(Empty(), method)(*([""] if method == "text_reply" else [None]))


def test_the_options_of_the_contract_are_all_tried():
    """A new field of ChatOptions needs an entry in the law about options."""
    tried = {name for name, _, _ in (*request_laws._OPTIONS, *request_laws._TOOL_OPTIONS)}
    elsewhere = {"tools", "timeout_s", "extra"}  # laws of their own

    assert tried | elsewhere == {field.name for field in attrs.fields(ChatOptions)}
