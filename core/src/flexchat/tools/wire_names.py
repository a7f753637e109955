"""Names of tools as providers take them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

LONGEST = 64

# What OpenAI, Gemini, Ollama and Anthropic all accept.
_PORTABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def wire_names(names: Iterable[str]) -> dict[str, str]:
    """Return the name each tool is sent under: its own where every provider takes that, else one much like it.

    ``weather.get`` becomes ``weather_get``. No two tools are sent under one name, whatever the case of its letters; the
    end of a changed name is a checksum of the true one where it was too long, or taken.
    """
    names = list(names)
    sent = {name: name for name in names if _PORTABLE.fullmatch(name)}
    taken = {name.lower() for name in sent}
    for name in names:
        if name in sent:
            continue
        wanted = re.sub(r"[^A-Za-z0-9_-]", "_", name)
        if not re.match(r"[A-Za-z_]", wanted):
            wanted = "_" + wanted
        if len(wanted) > LONGEST or wanted.lower() in taken:
            checksum = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
            wanted = f"{wanted[: LONGEST - 9]}_{checksum}"
        sent[name] = wanted
        taken.add(wanted.lower())
    return sent
