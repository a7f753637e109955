"""Exporters that are broken, slow, or never answer: they cost no turn."""

import threading
import time

import pytest
from flexchat_otel import ending
from flexchat_otel.ending import Ending
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult


class Broken(SpanExporter):
    def export(self, spans):
        raise RuntimeError("no collector")


class Hanging(SpanExporter):
    def __init__(self):
        self.until = threading.Event()

    def export(self, spans):
        self.until.wait(60)
        return SpanExportResult.FAILURE


@pytest.mark.parametrize("processor", [SimpleSpanProcessor, BatchSpanProcessor])
@pytest.mark.parametrize("kind", [Broken, Hanging])
async def test_a_turn_does_not_notice_its_exporter(sdk, chat_of, processor, kind):
    exporter = kind()
    sdk.provider.add_span_processor(processor(exporter))
    async with chat_of(*["hi"] * 20) as chat:
        began = time.monotonic()
        for _ in range(20):
            assert (await chat.respond("hello")).succeeded
        took = time.monotonic() - began
        if kind is Hanging:
            exporter.until.set()
    assert took < 5


@pytest.mark.parametrize("processor", [SimpleSpanProcessor, BatchSpanProcessor])
async def test_a_chat_closes_in_time_while_the_exporter_hangs(sdk, chat_of, processor):
    exporter = Hanging()
    sdk.provider.add_span_processor(processor(exporter))
    chat = chat_of("hi")
    await chat.respond("hello")
    began = time.monotonic()
    await chat.aclose()
    took = time.monotonic() - began
    exporter.until.set()
    assert took < 5


class Stuck:
    def __init__(self):
        self.until, self.ended = threading.Event(), 0

    def end(self, end_time):
        self.until.wait(60)
        self.ended += 1


def test_what_the_exporter_does_not_take_is_dropped(caplog, monkeypatch):
    monkeypatch.setattr(ending, "MAX_WAITING", 5)
    spans, stuck = Ending(), Stuck()
    for _ in range(50):
        spans.add(stuck, 0)
    assert [r.getMessage() for r in caplog.records] == [
        "the exporter does not take the spans: over 5 wait, and others are dropped"
    ]
    began = time.monotonic()
    spans.flush(0.02)
    assert time.monotonic() - began < 1
    stuck.until.set()
    spans.flush(5)
    assert stuck.ended == 5
