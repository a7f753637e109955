"""docs/telemetry.md: its program, its table, its names."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import attrs
import pytest
from flexchat_otel.settings import VERSIONS, Telemetry

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "telemetry.md").read_text()
OTEL = ROOT / "plugins/flexchat-otel/src/flexchat_otel"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_program_prints_what_the_page_shows(tmp_path):
    (program, _), (printed,) = blocks("python"), blocks("text")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == printed


@pytest.mark.slow
def test_the_collector_on_the_page_writes_the_spans_of_a_turn(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program, collector = blocks("python")
    collector = collector.replace("4318", str(port))
    exporter = "from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter\n"
    program = exporter + program.replace("exporter = InMemorySpanExporter()", "exporter = OTLPSpanExporter()")
    program = program.split("for span in")[0]
    with subprocess.Popen([sys.executable, "-c", collector], cwd=tmp_path, stderr=subprocess.DEVNULL) as running:
        try:
            until = time.monotonic() + 30
            while time.monotonic() < until:  # another process has no event to wait for
                with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.05)
            environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}"}
            subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True)
        finally:
            running.kill()
    written = (tmp_path / "spans.txt").read_text()
    assert len({re.match("[0-9a-f]{32} {", line) and line[:32] for line in written.splitlines()} - {None}) == 1
    assert '"name": "execute_tool calculator"' in written
    assert '"name": "invoke_agent"' in written


def test_the_table_can_be_read_and_is_complete():
    (table,) = (tomllib.loads(block)["telemetry"] for block in blocks("toml"))
    settings = Telemetry(**table)
    names = [field.name for field in attrs.fields(Telemetry)]
    assert [*table] == names
    assert attrs.evolve(settings, content=()) == Telemetry()
    rows = PAGE.split("| key | default | |")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` ", rows, re.MULTILINE) == names
    assert all(f'`"{version}"`' in rows for version in VERSIONS)


def test_each_metric_is_named():
    source = (OTEL / "metrics.py").read_text()
    names = tomllib.loads((OTEL / "semconv/2026-10.toml").read_text())
    for name in [*names["metrics"].values(), *re.findall(r'"(flexchat\.[a-z_.]+)"', source.split("def request")[0])]:
        assert f"`{name}`" in PAGE
