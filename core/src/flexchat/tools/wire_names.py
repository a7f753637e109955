"""Names of tools in a form providers accept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

MAX_CHARS = 64

# The names that OpenAI, Gemini, Ollama and Anthropic all accept.
_PORTABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def wire_names(names: Iterable[str], beside: Iterable[str] = ()) -> dict[str, str]:
    """Return the name each tool is sent under: its own if every provider accepts it, otherwise a similar one.

    ``weather.get`` becomes ``weather_get``. No two tools are sent under the same name, ignoring case; a changed name
    ends in a checksum of the original if that was too long or the new name is taken.

    Args:
        beside: Names that other tools are sent under.
    """
    names = list(names)
    used = {name.lower() for name in beside}
    sent = {name: name for name in names if _PORTABLE.fullmatch(name) and name.lower() not in used}
    used |= {name.lower() for name in sent}
    for name in names:
        if name in sent:
            continue
        candidate = re.sub(r"[^A-Za-z0-9_-]", "_", name)
        if not re.match(r"[A-Za-z_]", candidate):
            candidate = "_" + candidate
        if len(candidate) > MAX_CHARS or candidate.lower() in used:
            checksum = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
            candidate = f"{candidate[: MAX_CHARS - 9]}_{checksum}"
        sent[name] = candidate
        used.add(candidate.lower())
    return sent
