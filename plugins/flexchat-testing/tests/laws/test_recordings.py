"""Each law of recorded exchanges catches a provider that breaks it, and names the exchange."""

import json
import unittest

import attrs
import pytest
from flexchat_sdk import AnswerEnd, ChatOptions, TextDelta, UserMessage
from flexchat_testing import RecordingConformance
from flexchat_testing.laws.law import laws_of

ERRORS = {("kit", 2): ("ProviderRateLimitError", True)}
NO_ERRORS = {}
UNWRITABLE = {("kit", 0): "a reason"}
TEXT = "Grüße, 漢字 \U0001f600"


@pytest.fixture
def laws(parrot, tmp_path):
    """Return the laws of three recorded exchanges: a whole answer, a stream, and a refusal."""
    kit = parrot.KitParrotConformance()
    reply, (status, refusal) = kit.text_reply(TEXT), kit.error_reply("rate")
    bodies = [(200, reply), (200, "".join(kit.as_stream(reply))), (status, refusal)]
    exchanges = [
        {
            "request": {
                "method": "POST",
                "path": "/chat",
                "body": {"model": "m", "messages": [{"role": "user", "text": "hi"}]}
                | ({"stream": True} if isinstance(body, str) else {}),
            },
            "response": {"status": status, "headers": {}, "body": body},
        }
        for status, body in bodies
    ]
    (tmp_path / "kit.json").write_text(json.dumps({"exchanges": exchanges}), "utf-8")

    class Recordings(RecordingConformance):
        supports = frozenset({"requests"})
        count = 3
        errors = ERRORS
        greeting = "hi"

        def files(self):
            return [tmp_path / "kit.json"]

        def make_provider(self, transport, exchange):
            return kit.make_provider(transport)

        def check_answer(self, exchange, result):
            assert result.content == TEXT

        def request_of(self, exchange, earlier):
            assert [answered.number for answered, _ in earlier] == [*range(min(exchange.number, 2))]
            return (UserMessage(content=self.greeting),), ChatOptions()

    return Recordings


LAWS = [name for name, _ in laws_of(RecordingConformance)]


@pytest.mark.parametrize("name", LAWS)
def test_a_right_provider_keeps_every_law(laws, name):
    getattr(laws(), name)()


class Wrapped:
    """A provider around a right one; subclasses make it wrong."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Shouts(Wrapped):
    async def generate_chat(self, messages, model, options):
        result = await self.inner.generate_chat(messages, model, options)
        (text,) = result.message.parts
        parts = (attrs.evolve(text, text=text.text.upper()),)
        return attrs.evolve(result, message=attrs.evolve(result.message, parts=parts))


class KeepsTheLastDelta(Wrapped):
    async def stream_chat(self, messages, model, options):
        last = None
        async for event in self.inner.stream_chat(messages, model, options):
            if last is not None and isinstance(event, AnswerEnd):
                event = AnswerEnd(attrs.evolve(event.result, warnings=("late",)))
            elif last is not None:
                yield last
            last = event if isinstance(event, TextDelta) else None
            if last is None:
                yield event


class Forgives(Wrapped):
    async def generate_chat(self, messages, model, options):
        try:
            return await self.inner.generate_chat(messages, model, options)
        except Exception as error:
            error.retryable = False
            raise


class CountsPieces(Wrapped):
    async def stream_chat(self, messages, model, options):
        events = [event async for event in self.inner.stream_chat(messages, model, options)]
        pieces = len(self.pieces)
        for event in events:
            if isinstance(event, AnswerEnd):
                event = AnswerEnd(attrs.evolve(event.result, response_id=str(pieces)))
            yield event


def broken_by(laws, wrapper):
    class Broken(laws):
        def make_provider(self, transport, exchange):
            inner = super().make_provider(transport, exchange)
            made = wrapper(inner)
            made.pieces = transport._answer(None).pieces
            return made

    return Broken


@pytest.mark.parametrize(
    ("law", "wrapper", "words"),
    [
        ("test_every_recorded_answer_is_read_right", Shouts, "kit.json, exchange 0"),
        ("test_every_recorded_answer_is_read_right", KeepsTheLastDelta, "kit.json, exchange 1"),
        ("test_every_recorded_answer_is_read_right", Forgives, "kit.json, exchange 2"),
        ("test_every_cut_of_every_recorded_stream_gives_the_same_events", CountsPieces, "kit.json, exchange 1"),
    ],
)
def test_a_law_catches_a_provider_that_breaks_it(laws, law, wrapper, words):
    with pytest.raises(AssertionError) as caught:
        getattr(broken_by(laws, wrapper)(), law)()

    assert any(words in note for note in caught.value.__notes__)


def test_a_request_that_differs_is_caught(laws):
    class Differs(laws):
        greeting = "hello"

    with pytest.raises(AssertionError, match="hello") as caught:
        Differs().test_every_recorded_request_is_written_again()
    assert any("kit.json, exchange 0" in note for note in caught.value.__notes__)


def test_an_error_that_is_not_expected_is_caught(laws):
    class Hopes(laws):
        errors = NO_ERRORS

    with pytest.raises(AssertionError, match=r"must be None, it is \('ProviderRateLimitError', True\)"):
        Hopes().test_every_recorded_answer_is_read_right()


def test_missing_recordings_are_noticed(laws):
    class More(laws):
        count = 4

    class Fewer(laws):
        def files(self):
            return []

    with pytest.raises(AssertionError, match="4 exchanges were expected, got 3"):
        More().test_every_recorded_answer_is_read_right()
    with pytest.raises(unittest.SkipTest, match="no recordings"):
        Fewer().test_every_recorded_answer_is_read_right()


def test_what_cannot_be_written_is_left_out(laws):
    class Some(laws):
        unwritable = UNWRITABLE

        def request_of(self, exchange, earlier):
            assert exchange.number > 0
            return (UserMessage(content="hi"),), ChatOptions()

    Some().test_every_recorded_request_is_written_again()
