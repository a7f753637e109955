"""What the tests of this package share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def recordings() -> list[Path]:
    """Recorded exchanges with the real service: in FLEXCHAT_SHARED, or in a folder ``shared`` beside the project."""
    shared = os.environ.get("FLEXCHAT_SHARED") or Path(__file__).resolve().parents[3].parent / "shared"
    found = sorted(Path(shared, "recordings", "anthropic").glob("anthropic-messages.*.json"))
    if not found:
        pytest.skip("no recordings: set FLEXCHAT_SHARED to the folder that holds recordings/anthropic")
    return found
