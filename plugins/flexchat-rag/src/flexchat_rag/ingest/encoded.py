"""Removal of Base64 data from texts: pictures in Markdown, attachments in raw e-mail, keys."""

from __future__ import annotations

import re

MIN_CHARS = 200

_DATA_URL = re.compile(r"data:[\w.+-]*(?:/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,[A-Za-z0-9+/=_%-]{40,}")
_BLOCK = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{60,}(?:\r?\n[A-Za-z0-9+/]+)*={0,2}(?![A-Za-z0-9+/=])")
LEFT_OUT = "[Base64]"


def without_base64(text: str) -> tuple[str, int]:
    """Replace each run of Base64 with a marker. Returns the text and the number of replacements."""
    if ";base64," in text:
        text, urls = _DATA_URL.subn(LEFT_OUT, text)
    else:
        urls = 0
    blocks = 0

    def left_out(block: re.Match[str]) -> str:
        nonlocal blocks
        if len(block[0]) < MIN_CHARS or not _is_mixed(block[0][:MIN_CHARS]):
            return block[0]
        blocks += 1
        return LEFT_OUT

    return _BLOCK.sub(left_out, text), urls + blocks


def _is_mixed(text: str) -> bool:
    """Return True if a run has the mix of characters typical of Base64, unlike words, numbers and DNA."""
    return all(any(test(char) for char in text) for test in (str.isupper, str.islower, str.isdigit))
