"""The public modules: their names are pinned, complete and documented. Run this file to pin them anew."""

import importlib
import subprocess
import sys
from pathlib import Path

PINNED = Path(__file__).with_name("public_names.txt")
MODULES = (
    "flexchat",
    "flexchat.plugin",
    "flexchat.store",
    "flexchat.host",
    "flexchat_sdk",
    "flexchat_cli",
    "flexchat_sqlite",
    "flexchat_testing",
)


def public_names() -> str:
    return "".join(f"{module}.{name}\n" for module in MODULES for name in importlib.import_module(module).__all__)


def test_the_public_names_are_as_pinned():
    """Adding or removing one is a visible change to public_names.txt and a line in the CHANGELOG."""
    assert public_names() == PINNED.read_text(), "run: python tests/architecture/test_public_names.py"


def test_every_public_name_exists_and_every_class_has_a_docstring():
    bare = []
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            found = getattr(module, name)
            if isinstance(found, type) and not (found.__doc__ or "").strip():
                bare.append(f"{module.__name__}.{name}")

    assert bare == []


def test_a_public_module_of_functions_is_found_before_anything_else_has_imported_it():
    code = "from flexchat.store import effect_rows; print(effect_rows.__name__)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout.strip() == "flexchat.conversations.effect_rows", done.stderr


if __name__ == "__main__":
    PINNED.write_text(public_names())
