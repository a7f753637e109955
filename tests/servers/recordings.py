"""Recorded exchanges with real services: in FLEXCHAT_SHARED, or in a folder ``shared`` beside the project."""

import os
from pathlib import Path

FOLDER = Path(os.environ.get("FLEXCHAT_SHARED") or Path(__file__).resolve().parents[2].parent / "shared", "recordings")


def recordings(pattern: str) -> list[Path]:
    """Return the recordings that match a pattern such as "gemini/*.json"; none where there is no such folder."""
    return sorted(FOLDER.glob(pattern))
