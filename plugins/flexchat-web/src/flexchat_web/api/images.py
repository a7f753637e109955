"""A tool's result in the form for clients, with images that a page can show."""

from __future__ import annotations

import base64
from typing import Any

from flexchat import ToolResult

SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Types a page shows: pixels only, as SVG and HTML are programs."""
MOST_BYTES = 2 * 1024 * 1024
"""Of the images of one result, together; others are told of without their data, so that events stay small."""


def with_images(result: ToolResult) -> dict[str, Any]:
    """Return the result's envelope, in which each image that is shown has its ``data``, in Base64."""
    told = result.to_dict()
    left = MOST_BYTES
    for entry, part in zip(told.get("media", ()), result.media, strict=True):
        data = part.data or b""
        if part.mime_type in SHOWN and len(data) <= left:
            left -= len(data)
            entry["data"] = base64.b64encode(data).decode()
    return told
