"""Custom variables in prompts: the table [variables], and those passed with a request.

A name that is FlexChat's own is refused: which of the two a prompt shows must not depend on precedence.
"""

from __future__ import annotations

import json
import re
from typing import Any

import attrs

from ..domain import Profile
from .wording import shortened

OWN_NAMES = (*(field.name for field in attrs.fields(Profile)), "rag_context")  # filled in by FlexChat

_NAME = re.compile(r"[\w-]+")


def variable_problem(name: str, value: Any) -> str | None:
    """Return the reason this cannot be a variable, in one sentence; None if it can."""
    if name in OWN_NAMES:
        return f"'{name}' is FlexChat's own variable: choose another name"
    if not _NAME.fullmatch(name):
        return f"'{shortened(name)}' is impossible in {{{{ }}}}: a name has letters, digits, _ and -"
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return f"'{name}' is neither text, number, true or false, nor a list or table of them"
    return None
