"""OpenAI's clients send a request again whose answer they did not get in time, without a key: only with a count.

Source: github.com/openai/openai-python, README, "Retries", and src/openai/_base_client.py.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from typing import Any

from ..serving import Serving

RECENT_S = 600.0
"""How long a request can be told from its repetition."""

MAX_RECENT = 10_000
"""How many requests are remembered."""


class Repeats:
    """Gives each request to OpenAI's API a key: its own, or that of the request it repeats."""

    def __init__(self) -> None:
        self._recent: dict[bytes, tuple[str, float]] = {}  # oldest first

    @classmethod
    def of(cls, serving: Serving) -> Repeats:
        """Return a server's."""
        return serving.shared(cls, cls)

    def key_of(self, tenant: str, body: Any, retries: int) -> str:
        """Return a request's key.

        Args:
            retries: How often the client has sent it before: if it has, the key of the last request of this tenant with
                this body, if that is recent.
        """
        now = time.monotonic()
        about = hashlib.sha256(json.dumps([tenant, body], sort_keys=True).encode()).digest()
        key, at = self._recent.pop(about, ("", 0.0))
        if not key or not retries or now - at > RECENT_S:
            key = secrets.token_hex(16)
        self._recent[about] = key, now
        while len(self._recent) > MAX_RECENT or next(iter(self._recent.values()))[1] < now - RECENT_S:
            del self._recent[next(iter(self._recent))]
        return key
