"""Names of public modules are imported on first access."""

import subprocess
import sys


def test_a_module_is_imported_like_any_other_name():
    """Also by a program that has imported nothing of FlexChat before."""
    program = "from flexchat.store import effect_rows; print(effect_rows.__name__)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "flexchat.conversations.effect_rows"
