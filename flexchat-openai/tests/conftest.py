"""What the tests of this package share."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Exchange = tuple[str, int, dict[str, Any]]


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], list[Exchange]]:
    """Recorded exchanges with real services, by API ("chat", "responses"): file, number in it, exchange.

    They are in FLEXCHAT_SHARED, or in a folder ``shared`` beside the project.
    """
    shared = os.environ.get("FLEXCHAT_SHARED") or Path(__file__).resolve().parents[2].parent / "shared"

    def read(api: str) -> list[Exchange]:
        files = sorted(Path(shared, "recordings", "openai").glob(f"openai-{api}.*.json"))
        if not files:
            pytest.skip("no recordings: set FLEXCHAT_SHARED to the folder that holds recordings/openai")
        return [
            (path.name, number, exchange)
            for path in files
            for number, exchange in enumerate(json.loads(path.read_text("utf-8"))["exchanges"])
        ]

    return read
