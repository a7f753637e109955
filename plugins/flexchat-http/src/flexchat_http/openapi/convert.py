"""From a document to tools: each with the plan of its call."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from .fitting import Fitting
from .library import Library
from .operations import READS, Effect, Operation, check_version, fits, operations_of, select_operations
from .parameters import arguments_of, body_of
from .plan import Plan
from .reading import DocumentError, NoServer, Unusable
from .schemas import Schemas, shorten
from .security import check_server, combine_demanded, schemes_of, security_of, server_of

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
