"""Replies, deaths, clocks and edits in every order: a sample of the benchmark's schedules."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCHEDULES = Path(__file__).resolve().parents[2] / "benchmarks" / "approvals.py"


def schedules(*words):
    """Run schedules; return their output, and their exit status."""
    command = [sys.executable, SCHEDULES, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    return done.stdout + done.stderr, done.returncode


def test_nothing_runs_without_its_approval_and_no_reply_is_lost():
    output, status = schedules("--schedules", "500", "--seed", "11")

    assert status == 0, output
    assert "500 schedules, 0 broken promises" in output


@pytest.mark.parametrize("what", ["use", "digest", "suspend", "reply"])
def test_a_broken_order_is_found(what):
    """An approval that is not used up, or is for any arguments; a reply that is overlooked, or counts twice."""
    output, status = schedules("--schedules", "300", "--seed", "5", "--no-shrink", "--break", what)

    assert status == 1, output
    assert "AssertionError" in output
