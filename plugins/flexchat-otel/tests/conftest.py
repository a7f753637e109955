"""A process with an SDK whose spans and metrics are kept, for one test."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest
from flexchat import FlexChat
from flexchat_otel.ending import ENDING
from flexchat_testing import ScriptedProvider
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

_spec = importlib.util.spec_from_file_location("otel_conformance", Path(__file__).parent / "conformance.py")
assert _spec is not None
assert _spec.loader is not None
conformance = importlib.util.module_from_spec(_spec)
sys.modules["otel_conformance"] = conformance
_spec.loader.exec_module(conformance)


@attrs.define
class Sdk:
    """What a process has recorded."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader
    provider: TracerProvider
    version: str = "2026-10"
    has_content: bool = False

    @property
    def spans(self) -> list[Any]:
        """Return the spans that have ended."""
        ENDING.flush(5)
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> Any:
        """Return the only span of this name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    @property
    def metrics(self) -> dict[str, Any]:
        """Return the metrics by their names."""
        return {each.name: each for each in conformance._metrics(self.reader.get_metrics_data())}

    def check(self) -> None:
        """Find nothing that violates the conventions."""
        data = conformance.load(self.version)
        spans = [s for s in self.spans if s.instrumentation_scope.name == "flexchat_otel"]
        problems = [p for s in spans for p in conformance.span_problems(s, data, has_content=self.has_content)]
        problems += [p for m in self.metrics.values() for p in conformance.metric_problems(m, data)]
        assert spans
        assert problems == []


@pytest.fixture
def sdk(monkeypatch):
    """Set an SDK's providers for this test; they cannot be set twice in one process."""
    exporter, reader, provider = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    meters = MeterProvider([reader])
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: meters)
    monkeypatch.setattr(metrics, "get_meter", meters.get_meter)
    return Sdk(exporter, reader, provider)


@pytest.fixture
def chat_of(sdk, tmp_path):
    """Make a chat of scripted replies, whose conversations are kept in a file."""

    def make(*replies, tools=(), telemetry=None, rule=None, **config):
        table = {"name": "main", "llm": "m", "model": "m1", "tools": {"enabled": True}, **(rule or {})}
        return FlexChat.from_config(
            {
                "conversations": {"provider": "sqlite", "path": str(tmp_path / "c.db")},
                "responses": [table],
                "telemetry": telemetry or {},
                **config,
            },
            tools=tools,
            providers={"m": ScriptedProvider(replies)},
        )

    return make
