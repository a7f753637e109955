"""What a person should look at before accepting a server's tools. Pure.

Source of the cases: tool poisoning and shadowing as published by Invariant Labs (2025) and OWASP's MCP Top 10 (MCP03),
and Unicode's tag characters (U+E0000 to U+E007F), which show nothing and are read by models.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from flexchat.host import counted
from flexchat_sdk import find_hidden, package_data, remove_hidden, texts_in

_SHOWN = 60
_MAX_READ = 65_536
_NORMAL_LENGTH = 4_096
_ORDERS = {
    why: re.compile(pattern, re.IGNORECASE) for why, pattern in package_data("flexchat_mcp", "orders.toml").items()
}
_MAY_BE_FORBIDDEN = {"asks for secrets in an argument", "asks for the conversation or the prompt"}
# Up to three words between the prohibition and the order, none of which turns it around: "do not forget to include".
_FORBIDS = re.compile(
    r"\b(do not|don['’]t|must not|mustn['’]t|should not|shouldn['’]t|may not|can ?not|can['’]t|never|avoid|not to)"
    r"(?!\s+(?:only|just)\b)"
    r"(?:\s+(?!forget|fail|hesitate|omit|neglect|skip|miss|until|unless|without|before|but|except|proceed|continue)"
    r"[\w'’-]+){0,3}\s*$",
    re.IGNORECASE,
)
_BEFORE = 120
_LONG_CODE = re.compile(r"[A-Za-z0-9+/]{120,}={0,2}")


@attrs.frozen(kw_only=True)
class Finding:
    """Something about a tool.

    Attributes:
        tool: The server's name for it.
        place: Where: "description", "parameters.properties.city.description", "name".
        what: A sentence.
    """

    tool: str
    place: str
    what: str


def findings(tools: Iterable[Mapping[str, Any]], *, others: Mapping[str, Iterable[str]] | None = None) -> list[Finding]:
    """Return what is suspicious about a server's tools.

    It finds known tricks and is no proof of honesty: a server can do anything when it is called.

    Args:
        tools: As the server lists them: name, title, description, inputSchema, outputSchema, annotations.
        others: Names of the tools that exist besides, by what has them: "docs", "tools.registry".
    """
    results: list[Finding] = []
    looks: dict[str, str] = {}
    foreign = [(owner, other, skeleton(other)) for owner, names in (others or {}).items() for other in names]
    for tool in tools:
        name = str(tool.get("name", ""))
        for place, text in texts(tool):
            results += [Finding(tool=name, place=place, what=what) for what in _of_text(place, text)]
        look = skeleton(name)
        if look in looks and looks[look] != name:
            results.append(Finding(tool=name, place="name", what=f"looks like '{looks[look]}' of the same server"))
        looks.setdefault(look, name)
        results += [Finding(tool=name, place="name", what=what) for what in _find_imitated(name, look, foreign)]
    return results


def texts(tool: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield every text of a tool's definition, and its place."""
    for key, value in tool.items():
        yield from texts_in(value, {"inputSchema": "parameters", "outputSchema": "output"}.get(key, key))


def skeleton(name: str) -> str:
    """Return a name's look: two names with the same one can be mistaken for each other."""
    plain = unicodedata.normalize("NFKD", name).translate(_LOOK_ALIKES).casefold()
    return "".join(char for char in plain if char.isalnum()).translate(_SAME_LOOK)


# Cyrillic and Greek letters that look like Latin ones (Unicode TS 39, confusables, in part); digits like letters.
_LOOK_ALIKES = str.maketrans(
    "аеорсухіјѕԁɡһκονρτυαβεικмнтвАВЕКМНОРСТХЅІЈУΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcyxijsdghkovptuabeikmhtbABEKMHOPCTXSIJYABEZHIKMNOPTYX",
)
_SAME_LOOK = str.maketrans("01l5", "oiis")


def _of_text(place: str, text: str) -> Iterator[str]:
    if unseen := find_hidden(text):
        codes = ", ".join(dict.fromkeys(f"U+{ord(char):04X}" for char in unseen[:8]))
        secret = "".join(chr(ord(char) - 0xE0000) for char in unseen if 0xE0020 <= ord(char) < 0xE007F)
        spelling = f", which spell: {_short(secret)}" if secret else ""
        yield f"has {counted(len(unseen), 'character')} that nobody sees ({codes}){spelling}"
    plain = " ".join(unicodedata.normalize("NFKC", remove_hidden(text)).split())[:_MAX_READ]
    look = plain.translate(_LOOK_ALIKES)
    for why, pattern in _ORDERS.items():
        if (match := _find_order(pattern, plain, why) or _find_order(pattern, look, why)) is not None:
            yield f"{why}: “{_short(match[0])}”"
    if _LONG_CODE.search(plain):
        yield "has a long piece of encoded text"
    if re.search(r"\n[ \t]*\n[ \t\n]{20,}", text):
        yield "has a gap of empty lines, below which a reader may not look"
    if re.search(r"[^\S\n]{80}", text):
        yield "has a gap of spaces, behind which a reader may not look"
    if place == "description" and len(text) > _NORMAL_LENGTH:
        yield f"is {len(text):,} characters long"


def _find_order(pattern: re.Pattern[str], text: str, why: str) -> re.Match[str] | None:
    """Return the first match that is no prohibition: "do not include API keys" asks for none."""
    match = pattern.search(text)
    if why in _MAY_BE_FORBIDDEN:
        while match is not None and _FORBIDS.search(text[max(0, match.start() - _BEFORE) : match.start()]):
            match = pattern.search(text, match.start() + 1)  # one match may reach over the beginning of the next
    return match


def _find_imitated(name: str, look: str, others: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    for owner, other, others_look in others:
        if other == name:
            yield f"is also the name of a tool of '{owner}': give the server a prefix"
        elif others_look == look:
            yield f"looks like '{other}' of '{owner}'"


def _short(text: str) -> str:
    text = remove_hidden(text)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
