"""Checks spans and metrics against the conventions' data: names, kinds, attributes, types, requirement levels.

As a plugin of pytest's, it does so for everything that a run of tests produces::

    PYTHONPATH=plugins/flexchat-otel/tests python -m pytest -p conformance core/tests
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode

DATA = Path(__file__).parent / "data"
OURS = ("phase ", "wait ")
TYPES = {"string": str, "int": int, "double": float, "boolean": bool}


def load(version: str) -> dict[str, Any]:
    """Read the facts of a version."""
    data: dict[str, Any] = json.loads((DATA / f"semconv-{version}.json").read_text())
    return data


def span_problems(span: ReadableSpan, data: dict[str, Any], *, has_content: bool = False) -> Iterator[str]:
    """Yield what is wrong with a span."""
    attributes = dict(span.attributes or {})
    operation = str(attributes.get("gen_ai.operation.name", ""))
    shape = data["spans"].get(operation, {"attributes": {"error.type": "conditionally_required"}, "kind": "internal"})
    if not operation and not span.name.startswith(OURS):
        yield f"{span.name}: no operation"
    if operation and operation not in data["spans"]:
        yield f"{span.name}: operation {operation}"
    if operation and span.name.partition(" ")[0] != operation:
        yield f"{span.name}: its name does not begin with {operation}"
    if span.kind.name.lower() != shape["kind"]:
        yield f"{span.name}: kind {span.kind.name}"
    yield from _attribute_problems(span.name, attributes, shape["attributes"], data, has_content=has_content)
    if (span.status.status_code is StatusCode.ERROR) != ("error.type" in attributes):
        yield f"{span.name}: status {span.status.status_code.name} with error.type {attributes.get('error.type')}"
    if span.end_time is None or span.start_time is None or span.end_time < span.start_time:
        yield f"{span.name}: it ends before it begins"


def metric_problems(metric: Any, data: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a metric."""
    ours = metric.name.startswith("flexchat.")
    shape = {"attributes": {}, "unit": metric.unit, "instrument": ""} if ours else data["metrics"].get(metric.name)
    if shape is None:
        yield f"{metric.name}: there is no such metric"
        return
    if metric.unit != shape["unit"]:
        yield f"{metric.name}: unit {metric.unit}"
    if not ours and not hasattr(metric.data.data_points[0], "bucket_counts"):
        yield f"{metric.name}: no {shape['instrument']}"
    for point in metric.data.data_points:
        yield from _attribute_problems(metric.name, dict(point.attributes), shape["attributes"], data)


def _attribute_problems(
    where: str, attributes: dict[str, Any], allowed: dict[str, str], data: dict[str, Any], *, has_content: bool = False
) -> Iterator[str]:
    for name, value in attributes.items():
        if name.startswith("flexchat."):
            continue
        if name not in allowed:
            yield f"{where}: attribute {name} is not of this kind"
            continue
        if allowed[name] == "opt_in" and not has_content:
            yield f"{where}: {name} without consent"
        kind = data["attributes"][name]
        if isinstance(kind, dict):
            # Providers are an open list: others have names of their own.
            if value not in kind["members"] and name != "gen_ai.provider.name":
                yield f"{where}: {name} is {value!r}"
        elif kind == "string[]":
            if not isinstance(value, tuple) or not all(isinstance(each, str) for each in value):
                yield f"{where}: {name} is {value!r}"
        elif kind != "any" and (not isinstance(value, TYPES[kind]) or isinstance(value, bool) != (kind == "boolean")):
            yield f"{where}: {name} is {value!r}, not {kind}"
    for name, level in allowed.items():
        if level == "required" and name not in attributes:
            yield f"{where}: {name} is missing"
    if ("server.address" in attributes) != ("server.port" in attributes):
        yield f"{where}: an address without its port"


class _Collected(SpanExporter):
    def __init__(self) -> None:
        self.names: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self.data = load(os.environ.get("SEMCONV", "2026-10"))

    def export(self, spans: Any) -> SpanExportResult:
        for span in spans:
            scope = span.instrumentation_scope
            if scope is not None and scope.name == "flexchat_otel":
                self.names[span.name.partition(" ")[0]] += 1
                self.problems.update(span_problems(span, self.data))
        return SpanExportResult.SUCCESS


def pytest_configure(config: Any) -> None:
    """Set the providers of this process."""
    config.otel_collected, config.otel_reader = _Collected(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(config.otel_collected))
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(MeterProvider([config.otel_reader]))


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """Report what was found."""
    from flexchat_otel.ending import ENDING

    ENDING.flush(10)
    collected, found = config.otel_collected, Counter[str]()
    points = Counter[str]()
    for metric in _metrics(config.otel_reader.get_metrics_data()):
        points[metric.name] += len(metric.data.data_points)
        found.update(metric_problems(metric, collected.data))
    terminalreporter.write_line(f"spans: {dict(collected.names)}")
    terminalreporter.write_line(f"metrics: {dict(points)}")
    problems = collected.problems + found
    terminalreporter.write_line(f"violations: {problems.total()} {problems.most_common(20) or ''}")


def _metrics(data: Any) -> Iterator[Any]:
    for resource in data.resource_metrics if data is not None else ():
        for scope in resource.scope_metrics:
            if scope.scope.name == "flexchat_otel":
                yield from scope.metrics
