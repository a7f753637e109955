"""What each action of a dialect does to a keyword: one function each, listed in ACTIONS."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from .merge import distinct
from .types import ANNOTATIONS, kinds_of, listed

if TYPE_CHECKING:
    from .rewrite import Rewriting

_LONGEST = 300  # most characters of a value added to a description
_BOUND = {"exclusiveMinimum": ("minimum", 1, max), "exclusiveMaximum": ("maximum", -1, min)}

Severity = Literal["error", "warning", "info"]
Draft = dict[str, Any]
ActionOn = Callable[["Rewriting", Draft, str, list[str]], None]
"""(the rewriting, the schema being made, the keyword, additions to its description)"""


def drop(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Leave it out."""
    del draft[keyword]
    work.note("info", keyword, f"{keyword} is left out")


def tell(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Leave it out and mention it in the description."""
    value = draft.pop(keyword)
    if value is False and keyword in ("uniqueItems", "deprecated", "readOnly", "writeOnly"):
        work.note("info", keyword, f"{keyword} is left out")
        return
    told = in_words(keyword, value)
    if told and not work.is_mute:
        said.append(told)
        _note_told(work, keyword, f"the service does not accept {keyword}: it is mentioned in the description")
    else:
        why = "here" if work.is_mute else "and it is too long for the description"
        severity: Severity = "info" if keyword in ANNOTATIONS else "warning"
        work.note(severity, keyword, f"the service does not accept {keyword} {why}: it is left out")


def _note_told(work: Rewriting, keyword: str, text: str) -> None:
    """Note that a keyword is mentioned instead of sent: a loss if the service would have enforced it."""
    loses = work.dialect.enforces and keyword not in ANNOTATIONS
    work.note("warning" if loses else "info", keyword, text)


def refuse(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Refuse the schema."""
    del draft[keyword]
    work.note("error", keyword, f"the service does not accept {keyword}; remove it, and put it into the description")


def const_as_enum(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Send a constant as an enum of one value, with its type."""
    value = draft.pop(keyword)
    draft["enum"] = [value]
    draft.setdefault("type", kinds_of([value])[0])
    work.note("info", keyword, "const is sent as an enum of one value")


def one_of_as_any_of(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Allow any form where exactly one is required."""
    forms = draft.pop(keyword)
    if "anyOf" in draft:
        work.note("warning", keyword, "oneOf next to anyOf cannot be expressed: it is left out")
        return
    draft["anyOf"] = forms
    work.note("info", keyword, "oneOf is sent as anyOf")


def prefix_as_items(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Allow each item any of the forms, with the same number of items."""
    forms = draft.pop(keyword)
    rest = draft.pop("items", None)
    if type(rest) is dict or rest is True:
        forms = [*forms, rest]
    else:
        draft.setdefault("minItems", len(forms))
        draft.setdefault("maxItems", len(forms))
    different = distinct(forms)
    draft["items"] = different[0] if len(different) == 1 else {"anyOf": different}
    if len(different) == 1:
        work.note("info", keyword, "prefixItems of one form are sent as items")
        return
    if told := in_words("items in this order", [_kind(form) for form in forms]):
        said.append(told)
    work.note("warning", keyword, "prefixItems are sent as items of any of their forms: their order is only mentioned")


def bound(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Send an exclusive bound as an inclusive one: exact for integers, otherwise as close as possible."""
    value = draft.pop(keyword)
    inclusive, step, tighter = _BOUND[keyword]
    whole = listed(draft.get("type")) in (["integer"], ["integer", "null"]) and math.isfinite(value)
    if whole:
        value = (math.floor(value) if step > 0 else math.ceil(value)) + step
        work.note("info", keyword, f"{keyword} is sent as {inclusive}")
    else:
        said.append(f"{keyword}: {value}")
        _note_told(work, keyword, f"the service does not accept {keyword}: {inclusive} is sent, the rest mentioned")
    draft[inclusive] = tighter(draft[inclusive], value) if inclusive in draft else value


def strings(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Send an enum of strings that are not empty; for any other, mention the values and keep their types."""
    values = draft[keyword]
    rest = [value for value in values if value is not None]
    if len(rest) < len(values) and rest:
        draft["nullable"] = True
        work.note("info", keyword, "null among the values is sent as nullable")
        if all(type(value) is str for value in rest):
            draft["type"] = "string"
    if rest and all(type(value) is str and value for value in rest):
        draft[keyword] = rest
        kinds = [kind for kind in listed(draft.get("type")) if kind in ("string", "null")]
        if kinds and "type" in draft:
            draft["type"] = kinds[0] if len(kinds) == 1 else kinds
        return
    del draft[keyword]
    if not rest:
        draft["type"] = "null"
        return
    if "type" not in draft:
        kinds = kinds_of(values)
        draft["type"] = kinds[0] if len(kinds) == 1 else kinds
    if told := in_words("allowed values", rest):
        said.append(told)
        _note_told(
            work,
            keyword,
            "the service accepts only enums of non-empty strings: the values are listed in the description",
        )
    else:
        work.note(
            "warning", keyword, "the service accepts only enums of non-empty strings, and these are too many to list"
        )


def format_if_listed(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Send a format the service knows for this type; mention any other."""
    formats = work.dialect.formats
    kinds = listed(draft.get("type")) or ["string"]
    if not all(draft[keyword] in formats[kind] for kind in kinds if kind in formats):
        tell(work, draft, keyword, said)


def plain_pattern(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Send a pattern without look-around; mention any other."""
    if re.search(r"\(\?<?[=!]", draft[keyword]):
        tell(work, draft, keyword, said)


def open_object(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Leave out further properties, but mention their form."""
    value = draft.pop(keyword)
    if value is False:
        work.note("info", keyword, f"{keyword} is left out")
        return
    words = "further properties" if keyword == "additionalProperties" else keyword
    told = in_words(words, value) if value is not True and value != {} else ""
    if told:
        said.append(told)
    if not draft.get("properties"):
        text = "a map is sent as an object and mentioned in the description; a list of {key, value} is safer"
        work.note("warning", keyword, text)
    elif told:
        _note_told(work, keyword, f"{keyword} is mentioned in the description")


def close_object(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Leave it to treat_object for an object; elsewhere it has no meaning."""
    if "object" not in listed(draft.get("type")) and "properties" not in draft:
        drop(work, draft, keyword, said)


def leave(work: Rewriting, draft: Draft, keyword: str, said: list[str]) -> None:
    """Leave it to another step: it concerns more than one keyword."""


ACTIONS: Mapping[str, ActionOn] = {
    "drop": drop,
    "note": tell,
    "refuse": refuse,
    "as enum": const_as_enum,
    "as anyOf": one_of_as_any_of,
    "as items": prefix_as_items,
    "as bound": bound,
    "strings": strings,
    "listed": format_if_listed,
    "plain": plain_pattern,
    "open": open_object,
    "as type": leave,
    "close": close_object,
    "merge": leave,
    "flatten": leave,
    "write out": leave,
    "alone": leave,
}

FIRST = frozenset(("as enum", "as anyOf", "as items", "as bound"))
"""Actions that produce other keywords, which may have actions of their own."""


def in_words(keyword: str, value: Any) -> str:
    """Return a keyword as a description mentions it: "minimum: 1"; empty if that is too long."""
    if isinstance(value, list) and all(not isinstance(each, (list, dict)) for each in value):
        text = ", ".join(map(_text, value))
    else:
        text = _text(value)
    return f"{keyword}: {text}" if 0 < len(text) <= _LONGEST else ""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except ValueError:  # an integer of more than 4,300 digits
        return ""


def _kind(form: Any) -> str:
    if type(form) is not dict:
        return "any"
    kinds = listed(form.get("type"))
    return str(form.get("title") or " or ".join(map(str, kinds)) or "any")
