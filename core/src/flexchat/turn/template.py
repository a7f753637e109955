"""{{variables}} in a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ..domain import Document, Profile
from ..errors import UnknownNameError, did_you_mean

VARIABLE = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
_INDEX = re.compile(r"[0-9]{1,9}")  # int() refuses a long one, and str.isdigit() accepts "²"
_MISSING = object()


def substitute_variables(template: str, profile: Profile, own: Mapping[str, Any] | None = None) -> str:
    """Fill in the variables of a prompt template.

    ``{{topic}}``, ``{{user_message}}``, ``{{intent}}``, ``{{service}}``, ``{{collection}}``, ``{{rag_results}}``,
    ``{{reasoning}}``, ``{{rag_context}}``, and ``{{documents.0.title}}``: dots reach into mappings and lists, never
    into objects. None becomes an empty text, lists and objects become JSON. Filled-in text is not searched for
    variables again: a user's message cannot bring in its own.

    Args:
        own: Further variables by name; the profile's take precedence.

    Raises:
        UnknownNameError: A variable has no value; the text names each. Only what is missing of the documents found,
            which are sometimes fewer than a prompt shows, is empty instead.

    Source: requirements RG-1, RG-2, C21.
    """
    if "{{" not in template:
        return template
    return fill_in(template, {**(own or {}), **attrs.asdict(profile), "rag_context": rag_context(profile.documents)})


def fill_in(template: str, variables: Mapping[str, Any]) -> str:
    """Fill in the variables of a template, as substitute_variables does with those of a prompt."""
    missing: list[str] = []

    def value_of(match: re.Match[str]) -> str:
        value = _look_up(variables, match.group(1))
        if value is _MISSING and match.group(1).partition(".")[0] != "documents":
            missing.append(match.group(1))
        return "" if value is _MISSING else _text(value)

    filled = VARIABLE.sub(value_of, template)
    if missing:
        raise UnknownNameError(_missing_text(missing, variables))
    return filled


def _missing_text(missing: Sequence[str], variables: Mapping[str, Any]) -> str:
    names = [*dict.fromkeys(missing)]
    listed = ", ".join(f"{{{{{name}}}}}" for name in names)
    root = names[0].partition(".")[0]
    hint = "" if root in variables else did_you_mean(root, variables)
    return (
        f"the prompt shows {listed}, which has no value{hint}: "
        f"give it with the message (variables; at the command line --var {root}=…) or in [variables]"
    )


def variables_of(template: str) -> tuple[str, ...]:
    """Return the variables a prompt names, each once; {{documents.0.title}} counts as documents."""
    return tuple(dict.fromkeys(path.partition(".")[0] for path in VARIABLE.findall(template)))


def shows_documents(template: str) -> bool:
    """Return whether a prompt shows the documents found."""
    return not {"rag_context", "documents"}.isdisjoint(variables_of(template))


def rag_context(documents: Sequence[Document]) -> str:
    """Return the documents as a prompt shows them: each text headed by its title, collection and source."""
    if not documents:
        return "[No relevant documents found]"
    return "\n\n---\n\n".join(map(_passage, documents))


def _passage(document: Document) -> str:
    title = f"### {document.title}{f' (from {document.collection})' if document.collection else ''}"
    source = f"\nSource: {document.source}" if document.source else ""
    return f"{title}{source}\n\n{document.text}"


def _look_up(variables: Any, path: str) -> Any:
    value = variables
    for step in path.split("."):
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, (list, tuple)) and _INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return _MISSING
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
