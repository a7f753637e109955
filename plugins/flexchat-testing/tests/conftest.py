"""A provider that keeps every law: the one ``flexchat new provider`` writes."""

import importlib
import sys

import pytest
from flexchat_testing.commands.new import files_of, write


@pytest.fixture(scope="session")
def parrot(tmp_path_factory):
    """The conformance module of a freshly written provider package."""
    folder = tmp_path_factory.mktemp("parrot")
    write(folder / "kit-parrot", files_of("provider", "kit-parrot"))
    sys.path.insert(0, str(folder / "kit-parrot" / "src"))
    try:
        yield importlib.import_module("kit_parrot.conformance")
    finally:
        sys.path.remove(str(folder / "kit-parrot" / "src"))
