"""Guessing the encoding of a text that declares none and is not UTF-8."""

from __future__ import annotations

import re

import attrs

from .sections import UnreadableFileError

# Encodings in use for text, most common first: the order breaks ties.
ENCODINGS = (
    *("cp1252", "cp1250", "cp1251", "cp932", "gb18030", "cp949", "big5", "euc_jp", "koi8_r", "cp1253", "cp1254"),
    *("cp1255", "cp1256", "cp1257", "cp1258", "cp874", "iso8859_2", "iso8859_15", "mac_roman", "cp850", "cp866"),
)
MAX_SAMPLE_BYTES = 1 << 16
"""Bytes."""

_EQUAL_MESS, _EQUAL_LANGUAGE = 0.02, 0.03
_COMMONEST = 10
"""Prior weight of the first encoding relative to the others, for texts without evidence."""


@attrs.frozen(kw_only=True)
class Guess:
    """An encoding a text may be in.

    Attributes:
        certainty: Its weight among all plausible encodings, 0 to 1.
        example: A word of the text in this encoding; other_example is the same word in *other*, the runner-up.
    """

    encoding: str
    certainty: float
    example: str = ""
    other: str = ""
    other_example: str = ""

    def __str__(self) -> str:
        text = f"was read as {self.encoding}, a guess ({self.certainty:.0%} certain)"
        if self.other:
            text += f": '{self.example}', which is '{self.other_example}' in {self.other}"
        return text


def guessed(sample: bytes) -> Guess:
    """Return the likeliest encoding of bytes that are not UTF-8.

    Raises:
        UnreadableFileError: They are in none.
    """
    readings = _readings(sample[:MAX_SAMPLE_BYTES])
    if not readings:
        raise UnreadableFileError("is not text: it is neither UTF-8 nor in any other known encoding")
    least = min(mess for mess, _ in readings.values())
    tidy = {name: language for name, (mess, language) in readings.items() if mess <= least + _EQUAL_MESS}
    most = max(tidy.values())
    best = min((name for name in tidy if tidy[name] >= most - _EQUAL_LANGUAGE), key=ENCODINGS.index)
    weights: dict[str, float] = {}
    names: dict[str, str] = {}
    for name in sorted(readings, key=ENCODINGS.index):
        text = sample[:MAX_SAMPLE_BYTES].decode(name, "replace")
        mess, language = readings[name]
        weight = (1 - mess) * (1 + language) * (_COMMONEST if name == best else 1)
        weights[text] = max(weights.get(text, 0), weight)
        names.setdefault(text, name)
    mine = sample[:MAX_SAMPLE_BYTES].decode(best, "replace")
    certainty = min(0.99, weights[mine] / sum(weights.values()))
    others = [text for text in weights if text != mine]
    if not others:
        return Guess(encoding=best, certainty=certainty)
    other = max(others, key=lambda text: weights[text])
    return Guess(
        encoding=best,
        certainty=certainty,
        other=names[other],
        **dict(zip(("example", "other_example"), _examples(sample, best, names[other]), strict=True)),
    )


def _readings(sample: bytes) -> dict[str, tuple[float, float]]:
    """Return mess (0 to 1, lower is better) and likeness to a language (0 to 1) of each encoding that makes sense."""
    from charset_normalizer import from_bytes

    readings: dict[str, tuple[float, float]] = {}
    for match in from_bytes(sample, cp_isolation=list(ENCODINGS), enable_fallback=False):
        for name in match.could_be_from_charset:
            if name in ENCODINGS:
                readings.setdefault(name, (match.chaos, match.coherence))
    return readings


def _examples(sample: bytes, one: str, other: str) -> tuple[str, str]:
    """Return the first word that two encodings read differently, as each of them does."""
    for word in re.finditer(rb"[^\s,;|]*[\x80-\xff][^\s,;|]*", sample):
        texts = word[0].decode(one, "replace")[:30], word[0].decode(other, "replace")[:30]
        if texts[0] != texts[1]:
            return texts
    return "", ""
