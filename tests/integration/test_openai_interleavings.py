"""Calls of both sides through OpenAI's APIs: a sample of the benchmark's dialogues."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DIALOGUES = Path(__file__).resolve().parents[2] / "benchmarks" / "openai_interleavings.py"


def test_no_interleaving_makes_an_invalid_history():
    """500 dialogues, with servers started anew in between."""
    command = [sys.executable, DIALOGUES, "--runs", "500", "--seed", "1000000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "500 dialogues, 0 faults"), done.stdout + done.stderr
