"""Spans and metrics of other tests, by the data of the conventions; and what the checker finds in wrong ones."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from otel_conformance import load, span_problems

ROOT = Path(__file__).parents[3]
PIECES = [f"core/tests/turn/test_{name}.py" for name in ("resuming", "suspended", "questions", "run", "rounds")]


@pytest.mark.slow
def test_what_other_tests_do_keeps_to_the_conventions():
    """Turns that fail, wait, are resumed, cancelled and nested; all of the suite is checked by hand, with -p."""
    command = [sys.executable, "-m", "pytest", "-p", "conformance", "-p", "no:cacheprovider", "-m", "not slow", *PIECES]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    spans = ast.literal_eval(re.search(r"^spans: (.*)$", done.stdout, re.MULTILINE)[1])
    assert {"invoke_agent", "chat", "execute_tool", "phase", "wait"} <= spans.keys()
    assert sum(spans.values()) > 500
    assert "violations: 0 " in done.stdout, done.stdout[-3000:]


@pytest.mark.parametrize(
    ("name", "kind", "attributes", "problem"),
    [
        ("chat m", SpanKind.INTERNAL, {}, "chat m: kind INTERNAL"),
        ("talk m", SpanKind.CLIENT, {}, "talk m: its name does not begin with chat"),
        ("chat m", SpanKind.CLIENT, {"gen_ai.system": "openai"}, "chat m: attribute gen_ai.system is not of this kind"),
        ("chat m", SpanKind.CLIENT, {"gen_ai.request.seed": "1"}, "chat m: gen_ai.request.seed is '1', not int"),
        ("chat m", SpanKind.CLIENT, {"gen_ai.input.messages": "[]"}, "chat m: gen_ai.input.messages without consent"),
        ("chat m", SpanKind.CLIENT, {"server.address": "a"}, "chat m: an address without its port"),
    ],
)
def test_the_checker_finds(name, kind, attributes, problem):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    usual = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai"}
    provider.get_tracer("test").start_span(name, kind=kind, attributes={**usual, **attributes}).end()
    assert list(span_problems(exporter.get_finished_spans()[0], load("2026-10"))) == [problem]
