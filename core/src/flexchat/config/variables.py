"""Values from the environment: ``${NAME}`` and ``${NAME:-default}`` in the texts of a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import attrs

from ..errors import KeyStorageError, Problem
from .document import ConfigDocument, Report
from .keys import is_key_name
from .positions import KeyPath
from .wording import is_secret_name

MIN_SECRET_CHARS = 6  # characters; masking a shorter value would hide ordinary words

_PLACEHOLDER = re.compile(r"\$(?P<escaped>\$(?=\{))|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


@attrs.frozen(kw_only=True)
class Expanded:
    """A document with its placeholders replaced.

    Attributes:
        document: The same document, with values instead of placeholders.
        problems: A problem for each variable that is not set.
        secrets: The inserted values of 6 characters or more.
        paths: Texts that came, wholly or partly, from the environment: their values are not shown.
    """

    document: ConfigDocument
    problems: tuple[Problem, ...] = ()
    secrets: frozenset[str] = frozenset()
    paths: frozenset[KeyPath] = frozenset()


def expand_variables(document: ConfigDocument, look_up: Callable[[str], str | None]) -> Expanded:
    """Replace ``${NAME}`` and ``${NAME:-default}`` in every text; ``$${`` stands for ``${``. Keys are not expanded.

    The default is used if the variable is not set or empty, as in a shell. Everything else stays as written, and so
    does the placeholder of a variable that is not set, which is a problem.

    Args:
        look_up: Returns a variable's value, None if it is not set; a KeyStorageError it raises is a problem as well.
    """
    report = Report(document)
    secrets: set[str] = set()
    paths: set[KeyPath] = set()

    def expand(value: Any, path: KeyPath) -> Any:
        if isinstance(value, dict):
            return {key: expand(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [expand(item, (*path, index)) for index, item in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        return _PLACEHOLDER.sub(lambda found: replacement(found, path), value)

    def replacement(found: re.Match[str], path: KeyPath) -> str:
        if found["escaped"]:
            return "$"
        name, default = found["name"], found["default"]
        try:
            set_to = look_up(name)
        except KeyStorageError as error:
            report.problem(path, str(error))
            return found[0]
        if default is not None and not set_to:
            return default
        if set_to is None:
            store = f", or store it with flexchat keys set {name}" if is_key_name(name) and is_secret_name(name) else ""
            hint = f"export it first{store} (for the text itself write $${{{name}}})"
            report.problem(path, f"environment variable {name} is not set: {hint}")
            return found[0]
        paths.add(path)
        secrets.add(set_to)
        return set_to

    data = expand(document.data, ())
    return Expanded(
        document=attrs.evolve(document, data=data),
        problems=tuple(report.problems),
        secrets=frozenset(s for s in secrets if len(s) >= MIN_SECRET_CHARS),
        paths=frozenset(paths),
    )
