"""Processes, deaths, clocks and people in every order: a sample of the benchmark's schedules."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCHEDULES = Path(__file__).resolve().parents[2] / "benchmarks" / "effects_schedules.py"


def schedules(*words):
    """Run schedules; return what they say, and their exit status."""
    command = [sys.executable, SCHEDULES, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return done.stdout + done.stderr, done.returncode


@pytest.mark.parametrize(("store", "count"), [("sqlite", 500), ("memory", 200)])
def test_no_schedule_breaks_the_promise(store, count):
    said, status = schedules("--schedules", f"{count}", "--seed", "11", "--store", store)

    assert status == 0, said
    assert f"{count} schedules, 0 broken promises" in said


@pytest.mark.parametrize("what", ["claim", "finish"])
def test_a_broken_order_is_found(what):
    """An effect before its claim; a result told before it is written."""
    said, status = schedules("--schedules", "300", "--seed", "5", "--break", what)

    assert status == 1, said
    assert "AssertionError" in said
