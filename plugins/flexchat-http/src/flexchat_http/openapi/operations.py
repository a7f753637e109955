"""The operations of a document, their names as tools, and which of them are wanted.

Source: OpenAPI 3.1.1 §4.8.9 (Path Item), §4.8.10 (Operation); 3.2.0 §4.9.3 for the method QUERY.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from .library import Library
from .reading import DocumentError, Unusable

METHODS = ("get", "head", "options", "trace", "query", "post", "put", "patch", "delete")
READS = frozenset(("GET", "HEAD", "OPTIONS", "TRACE", "QUERY"))
MAX_NAME_CHARS = 64

Effect = Literal["read", "idempotent", "write"]


@attrs.frozen(kw_only=True, slots=False)
class Operation:
    """An operation as its document has it.

    Attributes:
        name: Its name as a tool: its id, or method and path, of 1 to 64 letters, digits, _ and -; no two are the same,
            ignoring case. It does not depend on which operations are wanted.
        method: In capital letters.
        path: With ``{placeholders}``.
        id: Its operationId; empty for none.
        data, item: It and its path item.
        base: The file both are in.
    """

    name: str
    method: str
    path: str
    id: str
    tags: tuple[str, ...]
    data: Mapping[str, Any]
    item: Mapping[str, Any]
    base: str

    @property
    def place(self) -> str:
        """Its position in the document."""
        return f"{self.method} {self.path}"

    @property
    def about(self) -> str:
        """Its summary and description."""
        texts = [self.data.get(key) for key in ("summary", "description")]
        texts_in_use = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
        if len(texts_in_use) == 2 and texts_in_use[1].startswith(texts_in_use[0].rstrip(".")):
            texts_in_use = texts_in_use[1:]
        return "\n\n".join(texts_in_use)


def operations_of(library: Library) -> tuple[list[Operation], list[tuple[str, str]]]:
    """Return all operations of a document, in its order; and the paths left out, each with the reason."""
    counts: dict[str, int] = {}
    operations: list[Operation] = []
    unusable: list[tuple[str, str]] = []
    paths = library.document.get("paths")
    for path in paths if isinstance(paths, dict) else ():
        try:
            item, base = _path_item(library, path)
        except Unusable as error:
            if not str(path).startswith("x-"):
                unusable.append((str(path), str(error)))
            continue
        for method in METHODS:
            data = item.get(method)
            if not isinstance(data, dict):
                if data is not None:
                    unusable.append((f"{method.upper()} {path}", "it is not an object"))
                continue
            name = data.get("operationId")
            name = name.strip() if isinstance(name, str) else ""
            tags = data.get("tags")
            operations.append(
                Operation(
                    name=_free_name(name or f"{method}_{path.strip('/')}", counts),
                    method=method.upper(),
                    path=path,
                    id=name,
                    tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
                    data=data,
                    item=item,
                    base=base,
                )
            )
    return operations, unusable


def _path_item(library: Library, path: str) -> tuple[dict[str, Any], str]:
    """Return the path item of a path, and its file.

    Raises:
        Unusable: The item is not an object, or the path is invalid.
    """
    if not isinstance(path, str) or not path.startswith("/"):
        raise Unusable("the path does not begin with /")
    item, base, _ = library.follow(library.document["paths"][path], library.root)
    if not isinstance(item, dict):
        raise Unusable("it is not an object")
    return item, base


def _free_name(base: str, counts: dict[str, int]) -> str:
    """Return a name that is not taken; ``taken`` has the names in lower case, and the last number tried for each."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", base).strip("_") or "operation"
    if len(name) > MAX_NAME_CHARS:
        name = f"{name[: MAX_NAME_CHARS - 9]}_{hashlib.sha256(base.encode('utf-8', 'replace')).hexdigest()[:8]}"
    candidate, count = name, counts.get(name.lower(), 1)
    while candidate.lower() in counts:
        count += 1
        candidate = f"{name[: MAX_NAME_CHARS - 1 - len(str(count))]}_{count}"
    counts[name.lower()] = count
    counts.setdefault(candidate.lower(), 1)
    return candidate


def select_operations(
    operations: Sequence[Operation], include: Sequence[str], exclude: Sequence[str]
) -> tuple[list[Operation], list[str]]:
    """Return the wanted operations, and the selectors that fit none.

    Args:
        include: Selectors, see ``fits``; an operation is wanted if one fits. Empty: all are.
        exclude: Selectors; one that fits takes an operation out again.
    """
    chosen: list[Operation] = []
    used: set[str] = set()
    for operation in operations:
        matching = [selector for selector in include if fits(selector, operation)]
        unwanted = [selector for selector in exclude if fits(selector, operation)]
        used.update(matching, unwanted)
        if (matching or not include) and not unwanted:
            chosen.append(operation)
    return chosen, [selector for selector in dict.fromkeys((*include, *exclude)) if selector not in used]


def fits(selector: str, operation: Operation) -> bool:
    """Match a selector against an operation.

    Selectors: ``listPets`` (an id or a tool name; * matches any text), ``tag:store``, ``GET``, ``/pets`` (this path),
    ``/pets/*`` (paths with this prefix), ``GET /pets/*``.
    """
    if selector.startswith("tag:"):
        return any(fnmatch.fnmatchcase(tag, selector[4:].strip()) for tag in operation.tags)
    method, _, path = selector.partition(" ")
    if method.lower() in METHODS:
        return method.upper() == operation.method and (not path.strip() or _fits_path(path.strip(), operation.path))
    if selector.startswith("/"):
        return _fits_path(selector, operation.path)
    if "*" in selector:
        return fnmatch.fnmatchcase(operation.name, selector) or fnmatch.fnmatchcase(operation.id, selector)
    return selector in (operation.id, operation.name)


def _fits_path(selector: str, path: str) -> bool:
    return path.startswith(selector[:-1]) if selector.endswith("*") else path == selector


def check_version(library: Library) -> bool:
    """Return True for OpenAPI 3.0, False for a later 3.x.

    Raises:
        DocumentError: The document is not OpenAPI 3.x.
    """
    document = library.document
    version = document.get("openapi")
    if "swagger" in document:
        raise DocumentError("", "", f"this is Swagger {document['swagger']!s:.9}, and 2.0 or later is needed")
    if not isinstance(version, (str, float)) or not str(version).startswith("3."):
        problem = f"openapi is {version!r:.40}" if version is not None else "it has no 'openapi: 3.…' at its top"
        raise DocumentError("", "", f"this is not an OpenAPI document of 2.0 or later: {problem}")
    return str(version).startswith("3.0")
