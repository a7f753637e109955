"""Loading the plugin."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_loading_the_commands_loads_nothing_heavy():
    """Every command line loads every plugin."""
    heavy = "numpy pypdf docx lxml selectolax charset_normalizer tqdm sqlite3 argparse"
    program = f"import sys, flexchat_rag.plugin; print([m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
