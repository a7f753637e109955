"""The tool source "openapi": a document, read when its tools are needed."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
from collections.abc import Sequence

from flexchat.host import did_you_mean
from flexchat.plugin import FetchError, FetchRequest, SourcedTool, ToolSourceContext, ToolSourceError, run_in_thread

from ..request import headers_problem
from ..settings import OpenApiConfig
from .convert import VERSION, Converted, OperationTool, convert
from .library import Fetch, Library, open_library
from .reading import MAX_BYTES, DocumentError, Unusable
from .security import schemes_of

log = logging.getLogger(__name__)

FETCH_SECONDS = 30.0
_MAX_WARNINGS = 5


async def open_source(config: OpenApiConfig, context: ToolSourceContext) -> OpenApiSource:
    """Read a source's document.

    Raises:
        ToolSourceError: It cannot be read.
    """
    if problem := headers_problem(config.headers, config.idempotency_header):
        raise ToolSourceError(problem)
    try:
        fetch = url_reader(context)
        library = await open_library(config.document, folder=context.folder, fetch=fetch, remote=config.remote_refs)
    except DocumentError as error:
        raise ToolSourceError(str(error)) from None
    return OpenApiSource(config, library, context.name)


def url_reader(context: ToolSourceContext) -> Fetch | None:
    """Build a URL reader over the guarded client; None if the context has none."""
    if (fetcher := context.fetcher) is None:
        return None

    async def fetch(url: str) -> bytes:
        request = FetchRequest(url=url, headers={"Accept": "application/json, application/yaml;q=0.9, */*;q=0.5"})
        try:
            answer = await fetcher.fetch(request, timeout_s=FETCH_SECONDS, max_bytes=MAX_BYTES)
        except FetchError as error:
            raise Unusable(f"{error} ({error.hint})" if error.hint else str(error)) from None
        if answer.status != 200:
            raise DocumentError("", "", f"the service answered {answer.status}")
        return answer.body

    return fetch


class OpenApiSource:
    """A document that has been read."""

    def __init__(self, config: OpenApiConfig, library: Library, name: str) -> None:
        self._config, self._library, self._name = config, library, name

    @property
    def fingerprint(self) -> str:
        """Digest of the document, of the settings that affect its conversion, and of the converter's version."""
        config = self._config
        missing = sorted(self._library.missing.items())
        choice = [config.include, config.exclude, sorted(config.effect.items()), config.server]
        text = json.dumps([VERSION, self._library.root, missing, *choice, config.idempotency_header])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass") + self._library.content).hexdigest()

    async def tools(self) -> Sequence[SourcedTool]:
        """Return the wanted operations; what cannot be a tool is logged.

        Raises:
            ToolSourceError: The document cannot be used, or no operation is wanted.
        """
        try:
            wanted = {name: getattr(self._config, name) for name in ("include", "exclude", "effect", "server")}
            result: Converted = await run_in_thread(functools.partial(convert, self._library, **wanted))
        except DocumentError as error:
            raise ToolSourceError(f"{self._config.document}: {error}") from None
        self._log_warnings(result)
        if not result.tools:
            why = "no operation is wanted"
            if result.unused:
                why += f": '{result.unused[0]}' fits none{did_you_mean(result.unused[0], result.names)}"
            if result.left_out:
                why = f"{result.left_out[0].place}: {result.left_out[0].why}"
            raise ToolSourceError(f"{self._config.document}: {why}")
        return [to_sourced_tool(tool, honours_key=self._config.idempotency_header is not None) for tool in result.tools]

    async def aclose(self) -> None:
        """There is nothing to release."""

    def still_callable(self, accepted: SourcedTool, now: SourcedTool | None) -> bool:
        """Return True if calls by the accepted definition still reach the same operation, according to the document.

        Arguments are not compared: the service validates them.
        """
        if now is None:
            return False
        before, after = accepted.settings.get("plan", {}), now.settings.get("plan", {})
        return all(before.get(key) == after.get(key) for key in ("method", "server", "path"))

    def _log_warnings(self, result: Converted) -> None:
        lines = [f"'{each}' fits no operation{did_you_mean(each, result.names)}" for each in result.unused]
        schemes = schemes_of(self._library.document)
        lines += [
            f"auth.{name}: the document has no such security scheme{did_you_mean(name, schemes)}"
            for name in self._config.auth
            if name not in schemes
        ]
        lines += [f"{each.place} cannot be a tool: {each.why}" for each in result.left_out]
        more = [f"and {len(lines) - _MAX_WARNINGS} more"] if len(lines) > _MAX_WARNINGS else []
        if lines:
            log.warning("tool source '%s': %s", self._name, "; ".join([*lines[:_MAX_WARNINGS], *more]))


def to_sourced_tool(tool: OperationTool, *, honours_key: bool = False) -> SourcedTool:
    """Return an operation's tool as its source gives it."""
    return SourcedTool(
        name=tool.name,
        description=tool.description,
        parameters=tool.parameters,
        implementation="openapi",
        settings={"plan": tool.plan},
        effect=tool.effect,
        honours_key=honours_key and tool.effect == "write",
    )
