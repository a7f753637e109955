"""From a document to tools: its operations, their names, which of them are wanted, and the plan of each call.

Source: OpenAPI 3.1.1 §4.8.9 (Path Item), §4.8.10 (Operation); 3.2.0 §4.9.3 for the method QUERY.
"""

from __future__ import annotations

import fnmatch
import hashlib
import logging
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from .fitting import Fitting
from .library import Library
from .parameters import arguments_of, body_of
from .plan import Plan
from .reading import DocumentError, NoServer, Unusable
from .schemas import Schemas, shorten
from .security import check_server, combine_demanded, schemes_of, security_of, server_of

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


log = logging.getLogger(__name__)

VERSION = 1  # of what is made of a document: a change here makes every source look at its document again
MAX_TOOLS = 50_000
MAX_DESCRIPTION = 1_000
MAX_SECONDS = 300.0
"""Of computing: a document whose operations take longer is refused. A thread that works cannot be stopped."""


@attrs.frozen(kw_only=True)
class OperationTool:
    """An operation as a tool.

    Attributes:
        name: 1 to 64 letters, digits, _ and -.
        parameters: JSON Schema 2020-12.
        plan: What a call needs besides its arguments: see plan.py.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect
    plan: Plan


@attrs.frozen(kw_only=True)
class LeftOut:
    """An operation or a path that cannot be a tool: where it is in the document, and why.

    Attributes:
        needs_server: Whether it can be one with a server from the config.
    """

    name: str
    place: str
    why: str
    needs_server: bool = False


@attrs.frozen(kw_only=True)
class Converted:
    """The result of converting a document.

    Attributes:
        left_out: Operations, and whole paths, that cannot become tools.
        unused: Selectors that match no operation.
        names: Names of all operations, selected or not.
    """

    tools: tuple[OperationTool, ...]
    left_out: tuple[LeftOut, ...] = ()
    unused: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def convert(
    library: Library,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    effect: Mapping[str, Effect] | None = None,
    server: str | None = None,
) -> Converted:
    """Return a document's operations as tools.

    Args:
        include, exclude: Selectors (``operations.fits``): which operations.
        effect: By selector; the last that fits counts. Otherwise GET, HEAD, OPTIONS, TRACE and QUERY read, all else
            writes.
        server: The URL that paths are appended to, instead of the document's.

    Raises:
        DocumentError: It is not an OpenAPI document of 3.x, or too many operations are wanted, or too large ones.
    """
    converter = _Converter(library, effect or {}, server)
    operations, unusable = operations_of(library)
    chosen, unused = select_operations(operations, include, exclude)
    unused += [each for each in effect or () if not any(fits(each, operation) for operation in operations)]
    if len(chosen) > MAX_TOOLS:
        text = f"{len(chosen):,} operations are wanted; at most {MAX_TOOLS:,} can be: choose some with include"
        raise DocumentError("", "paths", text)
    tools, left_out = [], [LeftOut(name=path, place=path, why=why) for path, why in unusable]
    until = time.thread_time() + MAX_SECONDS
    for operation in chosen:
        if time.thread_time() > until:
            text = f"its operations take more than {MAX_SECONDS:.0f} s to read: choose some with include"
            raise DocumentError(library.root, "paths", text)
        try:
            tools.append(converter.tool(operation))
        except Exception as error:  # a document may hold anything; the other operations are fine
            why = str(error)
            if not isinstance(error, Unusable):
                log.debug("%s %s", library.root, operation.place, exc_info=error)
                why = f"it is malformed ({type(error).__name__}: {why[:100]})"
            needs_server = isinstance(error, NoServer)
            left_out.append(LeftOut(name=operation.name, place=operation.place, why=why, needs_server=needs_server))
    names = tuple(operation.name for operation in operations)
    return Converted(tools=tuple(tools), left_out=tuple(left_out), unused=tuple(unused), names=names)


class _Converter:
    def __init__(self, library: Library, effect: Mapping[str, Effect], server: str | None) -> None:
        self._library, self._effect = library, effect
        self._schemas = Schemas(library, is_30=check_version(library))
        self._fitting = Fitting(self._schemas.definitions, self._schemas.broken)
        try:
            self._server = check_server(server) if server is not None else None
        except Unusable as error:
            raise DocumentError("", "server", str(error)) from None

    def tool(self, operation: Operation) -> OperationTool:
        """Return an operation as a tool.

        Raises:
            Unusable: It cannot be one.
        """
        library, data, base = self._library, operation.data, operation.base
        document = library.document
        security = security_of(
            data.get("security", document.get("security")),
            schemes_of(document),
            lambda value: library.follow(value, library.root)[0],
            library.root,
        )
        body = body_of(data["requestBody"], base, library, self._schemas) if "requestBody" in data else None
        levels = [operation.item.get("parameters"), data.get("parameters")]
        arguments = arguments_of(levels, base, operation.path, body, security, library, self._schemas)
        servers = [level.get("servers") for level in (data, operation.item, document)]
        server = self._server if self._server is not None else server_of(servers, library.root)
        plan: Plan = {"method": operation.method, "server": server, "path": operation.path}
        if arguments.parameters:
            plan["parameters"] = arguments.parameters
        if arguments.body is not None:
            plan["body"] = arguments.body
        if security:
            plan["security"] = combine_demanded(security, arguments.demanded)
        return OperationTool(
            name=operation.name,
            description=shorten(operation.about, MAX_DESCRIPTION) or operation.place,
            parameters=self._fitting.fit(arguments.schema),
            effect=self._effect_of(operation),
            plan=plan,
        )

    def _effect_of(self, operation: Operation) -> Effect:
        effect: Effect = "read" if operation.method in READS else "write"
        for selector, choice in self._effect.items():
            if fits(selector, operation):
                effect = choice
        return effect
