"""docs/telemetry.md: its program, its table, its names."""

import re
import subprocess
import sys
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
    (program,), (printed,) = blocks("python"), blocks("text")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == printed


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
