"""Reading docstrings: the first paragraph, and each parameter's description, in Google, NumPy or Sphinx style."""

from __future__ import annotations

import re

import attrs

_GOOGLE_HEADER = re.compile(r"(?:Args|Arguments|Params|Parameters|Keyword Args|Other Parameters|Attributes):\s*$")
_ANY_HEADER = re.compile(r"[A-Z][A-Za-z ]{0,30}:\s*$")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*)|$)")
_NUMPY_HEADER = re.compile(r"(?:Other )?(?:Parameters|Attributes)\s*$")
_UNDERLINE = re.compile(r"-{3,}\s*$")
_NUMPY_ENTRY = re.compile(r"((?:\*{0,2}\w+)(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX_ENTRY = re.compile(r":(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_SPHINX_FIELD = re.compile(r":[a-z]+(?:\s[^:]*)?:")


@attrs.frozen
class Docstring:
    """The content of a docstring.

    Attributes:
        summary: The first paragraph, on one line; empty if there is none.
        parameters: Each parameter's description, on one line, by name.
    """

    summary: str
    parameters: dict[str, str]


def read_docstring(text: str) -> Docstring:
    """Read a docstring whose indentation inspect.cleandoc has removed. Anything in an unknown style is ignored."""
    lines = text.splitlines()
    parameters: dict[str, str] = {}
    for index, line in enumerate(lines):
        if _GOOGLE_HEADER.match(line):
            _read_google(lines[index + 1 :], parameters)
        elif _NUMPY_HEADER.match(line) and _UNDERLINE.match("".join(lines[index + 1 : index + 2])):
            _read_numpy(lines[index + 2 :], parameters)
        elif line.startswith(":") and (entry := _SPHINX_ENTRY.match(line)):
            parameters[entry[1]] = _joined([entry[2], *_indented(lines[index + 1 :])])
    return Docstring(_summary(lines), parameters)


def _summary(lines: list[str]) -> str:
    summary: list[str] = []
    for index, line in enumerate(lines):
        underlined = _UNDERLINE.match("".join(lines[index + 1 : index + 2]))
        if (not line.strip() and summary) or underlined or _ANY_HEADER.match(line) or _SPHINX_FIELD.match(line):
            break
        summary.append(line)
    return _joined(summary)


def _read_google(lines: list[str], parameters: dict[str, str]) -> None:
    block = _indented(lines)
    margin = min((_margin(line) for line in block if line.strip()), default=0)
    name = ""
    for line in block:
        entry = _GOOGLE_ENTRY.match(line, margin) if _margin(line) == margin else None
        if entry:
            name = entry[1]
            parameters[name] = (entry[2] or "").strip()
        elif name:
            parameters[name] = _joined([parameters[name], line])


def _read_numpy(lines: list[str], parameters: dict[str, str]) -> None:
    for index, line in enumerate(lines):
        if _UNDERLINE.match("".join(lines[index + 1 : index + 2])):
            return
        entry = _NUMPY_ENTRY.match(line)
        if entry and not line.startswith(" "):
            text = _joined(_indented(lines[index + 1 :]))
            parameters.update({name.strip().lstrip("*"): text for name in entry[1].split(",")})


def _indented(lines: list[str]) -> list[str]:
    """Return the lines before the first unindented one; blank lines count as indented."""
    for index, line in enumerate(lines):
        if line.strip() and not line.startswith((" ", "\t")):
            return lines[:index]
    return lines


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: list[str]) -> str:
    return " ".join(word for line in lines for word in line.split())
