"""Operations on the configuration: show, check, change and apply it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sized
from pathlib import Path
from typing import Any

import attrs
from flexchat import ConfigError, FlexChat, PluginError, Problem
from flexchat.host import ConfigDocument, copied, counted, document_of, read_config
from flexchat_cli import config_schema, find_check_problems

from ..apart import Apart
from ..operations import Call, Handler, Json, Operations, Reply, Text
from ..problems import ApiError
from ..sending import encode_reply
from ..serving import Serving
from ..shapes import COUNT, SWITCH, TEXT, TEXTS, body_schema, listed, record
from .editing import edit, set_values
from .file import ConfigFile, changed_meanwhile, current_file, save, tables_of, unified_diff, written_as
from .permitted import refused
from .secrets import at, behind_masks, changed_secrets, mask_secrets, shown_unread, with_comments

FORMAT = {"enum": ["toml", "yaml", "json"]}
_FLAW = record({"path": str, "text": str, "line": int | None})
FLAWS = listed({**_FLAW, "description": "A problem or note, with its place."})
STATUS = record({"config_loaded": bool, "ai_providers": list[str], "rag_providers": list[str]})
PATH = {"type": "array", "items": {"anyOf": [TEXT, COUNT]}, "minItems": 1, "maxItems": 20}
CHANGE = {
    "anyOf": [
        body_schema({"path": PATH, "value": {}}),
        body_schema({"path": PATH, "remove": {"const": True}}),
        body_schema({"path": PATH, "insert": {}}, before=COUNT),
        body_schema({"path": PATH, "move_to": COUNT}),
    ]
}


@attrs.frozen(kw_only=True)
class _Posted:
    """A posted configuration that may be used, with its secrets restored."""

    text: str
    document: ConfigDocument

    @property
    def source(self) -> Any:
        """What a chat is made from; in tables, nothing is replaced from the environment."""
        return self.document if self.text else self.document.data


QUICK = 8 * 1024
"""Characters of a configuration that is worked on in this process, in a thread."""


def _elsewhere(work: Callable[[Call], Reply]) -> Handler:
    """Let an operation do its work in another process; in a thread if it is small, or if the process would lack the
    plugins."""

    @functools.wraps(work)
    async def handle(call: Call) -> Reply:
        facts = call.serving.facts() if _size(call) > QUICK else None
        if facts is None:
            return await asyncio.to_thread(work, call)
        # The facts hold what the work needs to know about the server; a module cannot be pickled, and is not needed.
        parts: dict[str, Any] = {"serving": facts, "web": None}
        return await Apart.of(call.serving).run(_encode, handle, attrs.evolve(call, **parts))

    return handle


def _encode(handle: Any, call: Call) -> Reply:
    """Do the work of an operation, which is sent to the process by its name in this module."""
    return encode_reply(handle.__wrapped__(call))


def _size(call: Call) -> int:
    """Return the length of the configuration a request is about: the posted one, or the file."""
    body = call.body or {}
    if "config" in body:
        return len(json.dumps(body["config"]))
    with contextlib.suppress(OSError):
        source = call.serving.source
        return max(len(body.get("text", "")), source.stat().st_size if isinstance(source, Path) else 0)
    return len(body.get("text", ""))


_EXAMPLE = '[llms.robot]\nprovider = "rehearsal"\n\n[[responses]]\nllm = "robot"\nmodel = "r1"\n'
_EXAMPLE_CHANGE = {"path": ["responses", 0, "model"], "value": "r2"}
TABLES = {"type": ["object", "null"], "description": "The text's tables; null if it cannot be read."}
_VALIDITY = body_schema({"valid": bool, "errors": FLAWS, "warnings": FLAWS, "config": TABLES})
_RELOADED = body_schema({"success": bool, "message": str, "status": STATUS})


operation = Operations("configuration")


@operation(
    "GET",
    "/api/config",
    name="getConfig",
    permission="edit",
    answer=body_schema(
        {
            **dict.fromkeys(("name", "text", "version"), str),
            "format": FORMAT,
            "config": TABLES,
            "others": {**TEXTS, "description": "Files it includes, and its prompts' files; edited outside only."},
            "editable": bool,
            "in_force": {**SWITCH, "description": "Whether this is the configuration in use."},
            "problems": FLAWS,
            "notes": FLAWS,
        }
    ),
    problems=(409,),
    links={
        "save": {
            "operationId": "putConfig",
            "requestBody": {"text": "$response.body#/text", "version": "$response.body#/version"},
        }
    },
)
@_elsewhere
def show(call: Call) -> Reply:
    """Return the configuration's text, with secrets masked."""
    file = current_file(call.serving)
    text, problems = _masked_text(call.serving, file)
    return Json(
        {
            "name": file.name if file.path is not None else "in memory" if call.serving.in_memory else "demo",
            "format": file.format,
            "text": text,
            "config": tables_of(text, file.format),
            "version": file.version,
            "others": call.serving.others,
            "editable": call.may_edit and file.path is not None,
            "in_force": _serves(call.serving, file),
            "problems": _flaws_as_data(problems or _placed(call.serving, call.serving.config_problems)),
            "notes": _flaws_as_data(_placed(call.serving, call.serving.notes)),
        }
    )


@operation("GET", "/api/config/schema", name="getConfigSchema", answer={"type": "object"})
async def schema(call: Call) -> Reply:
    """Return the JSON Schema of a configuration, including the installed plugins' parts."""
    return Json(config_schema(call.serving.plugins))


@operation(
    "POST",
    "/api/config/validate",
    name="validateConfig",
    body={
        "anyOf": [
            body_schema({"text": str}, format=FORMAT),
            body_schema({"config": dict}),
        ],
        "examples": [{"text": _EXAMPLE, "format": "toml"}],
    },
    answers={200: _VALIDITY, 400: _VALIDITY},
    problems=(409,),
    edits=True,
)
@_elsewhere
def validate(call: Call) -> Reply:
    """Check whether a configuration could be used: everything that is wrong with it, with lines."""
    serving, tables = call.serving, _tables(call)
    try:
        posted = _posted(call, call.body)
        chat = FlexChat.from_config(posted.source, plugins=serving.plugins)
    except ConfigError as error:
        flaws = _flaws_as_data(_problems_for_client(serving, error.problems))
        return Json({"valid": False, "errors": flaws, "warnings": [], "config": tables}, status=400)
    asyncio.run(chat.aclose())
    warnings = [*_flaws_as_data(_problems_for_client(serving, chat.notes)), *_of_checks(serving, posted)]
    return Json({"valid": True, "errors": [], "warnings": warnings, "config": tables})


@operation(
    "POST",
    "/api/config/edit",
    name="editConfigText",
    body={
        **body_schema({"text": str, "format": FORMAT, "changes": {**listed(CHANGE), "maxItems": 100}}),
        "examples": [{"text": _EXAMPLE, "format": "toml", "changes": [_EXAMPLE_CHANGE]}],
    },
    answer=body_schema({"text": str, "config": TABLES}),
    problems=(422,),
    edits=True,
)
@_elsewhere
def change(call: Call) -> Reply:
    """Return a text with some values changed; comments and order stay. Writes nothing."""
    source = f"flexchat.{call.body['format']}"
    try:
        text = edit(call.body["text"], source, call.body["changes"])
        return Json({"text": text, "config": tables_of(text, call.body["format"])})
    except ConfigError as error:
        raise ApiError(422, f"the text cannot be read: {error.problems[0].text}", flaws=error.problems) from None


@operation(
    "POST",
    "/api/config/diff",
    name="diffConfig",
    body={**body_schema({"text": str}), "examples": [{"text": _EXAMPLE}]},
    answer=body_schema({"diff": str, "secrets": list[str]}),
    problems=(409,),
    edits=True,
)
@_elsewhere
def diff(call: Call) -> Reply:
    """Show how a text differs from the file, and which secrets it replaces."""
    file = current_file(call.serving)
    before, _ = _masked_text(call.serving, file)
    after, problems = _masked_text(call.serving, attrs.evolve(file, text=call.body["text"]))
    lines = unified_diff(before.splitlines(), after.splitlines(), file.name)
    secrets: list[str] = []
    if not problems:
        posted, now = file.parse(call.body["text"]), _readable(call.serving, file)
        secrets = [posted.problem(place, "").path for place in changed_secrets(posted.data, now)]
    return Json({"diff": "\n".join(lines), "secrets": secrets})


@operation(
    "PUT",
    "/api/config",
    name="putConfig",
    body=body_schema({"text": str, "version": str}),
    answer=body_schema({"version": str, "status": STATUS, "notes": FLAWS}),
    problems=(409, 422),
    edits=True,
)
async def replace(call: Call) -> Reply:
    """Save a text and start using it, or do neither. Turns in progress finish on the old one."""
    serving = call.serving
    file = current_file(serving)
    path = file.path
    if path is None:
        raise ApiError(
            409,
            "the current configuration does not come from a file, so it cannot be saved: flexchat init writes one",
            kind="no-file",
        )
    if file.version != call.body["version"]:
        raise changed_meanwhile(file.name)
    try:
        posted = await asyncio.to_thread(_posted, call, {"text": call.body["text"]})
        # Shielded: if the client leaves while the file is replaced, the old or the new one is in force, not a mixture.
        await asyncio.shield(
            serving.replace(posted.document, lambda: save(path, posted.text, version=call.body["version"]))
        )
    except (ConfigError, PluginError) as error:
        flaws = error.problems if isinstance(error, ConfigError) else [Problem(path="", text=str(error))]
        raise ApiError(422, _count(flaws), flaws=_problems_for_client(serving, flaws), kind="config") from None
    return Json(
        {
            "version": current_file(serving).version,
            "status": await _status(serving),
            "notes": _flaws_as_data(_placed(serving, serving.notes)),
        }
    )


@operation(
    "POST",
    "/api/config/reload",
    name="reloadConfig",
    body={"type": "object", "examples": [{}]},
    body_required=False,
    answer=_RELOADED,
    edits=True,
)
async def reload(call: Call) -> Reply:
    """Reload the file; or, with a configuration as the body, use that one, in memory only."""
    serving = call.serving
    try:
        if call.body:
            tables = await asyncio.to_thread(_usable, call, call.body)
            await asyncio.shield(serving.reload(tables))
            message = "the configuration is used until the server stops or reloads; it is not saved"
        else:
            await asyncio.shield(serving.reload())
            message = "the configuration was reloaded"
    except ConfigError as error:
        flaws = _problems_for_client(serving, error.problems)
        raise ApiError(
            400, f"{_count(flaws)}; the old one stays in use", flaws=flaws, kind="config", success=False
        ) from None
    return Json({"success": True, "message": message, "status": await _status(serving)})


@operation(
    "GET",
    "/api/config/export",
    name="exportConfig",
    permission="edit",
    query={"format": {"type": "string", "enum": ["toml", "yaml", "json"]}},
    media=("application/toml", "application/yaml", "application/json"),
    problems=(409,),
)
@_elsewhere
def export(call: Call) -> Reply:
    """Export the configuration as a file, with secrets masked."""
    file = current_file(call.serving)
    text, problems = _masked_text(call.serving, file)
    format = call.query.get("format") or file.format
    if format != file.format:
        if problems:
            raise ApiError(409, f"{file.name} cannot be read, so only its own text can be exported", kind="config-file")
        text = written_as(file.parse(text).data, format)
    return Text(
        text,
        media_type=f"application/{format}",
        headers={"content-disposition": f'attachment; filename="flexchat.{format}"'},
    )


def _masked_text(serving: Serving, file: ConfigFile) -> tuple[str, tuple[Problem, ...]]:
    """Return a file's text without secrets, and the problems if it cannot be read."""
    try:
        document = file.parse(file.text)
    except ConfigError as error:
        return shown_unread(file.text, serving.mask), tuple(_problems_for_client(serving, error.problems))
    return mask_secrets(file.text, document, serving.plugins, serving.mask), ()


def _serves(serving: Serving, file: ConfigFile) -> bool:
    with contextlib.suppress(ConfigError):
        return file.path is None or file.parse(file.text).data == serving.written
    return False


def _readable(serving: Serving, file: ConfigFile) -> Mapping[str, Any]:
    """Return the file's data, or the current configuration's if the file cannot be read."""
    try:
        return file.parse(file.text).data
    except ConfigError:
        return serving.written


def _posted(call: Call, body: Mapping[str, Any]) -> _Posted:
    """Return a posted configuration with the file's secrets in place of the masks.

    Raises:
        ConfigError: It cannot be read, or contains something that may not come through the server.
    """
    if "config" in body:
        data = _usable(call, body["config"])
        return _Posted(text="", document=document_of(data))
    serving = call.serving
    file = current_file(serving)
    if body.get("format", file.format) != file.format:
        file = attrs.evolve(
            file, path=file.path and Path(file.path).with_suffix("." + body["format"]), format=body["format"]
        )
        now = serving.written
    else:
        now = _readable(serving, file)
    posted = file.parse(body["text"])
    values, problems = behind_masks(posted, now, serving.plugins, serving.mask)
    text = body["text"]
    with contextlib.suppress(ConfigError):  # the file cannot be read: the posted comments stay
        text = with_comments(text, file.text, file.parse(file.text), serving.plugins, serving.mask)
    text = set_values(text, posted.source, values) if values else text
    document = file.parse(text)
    # A configuration in memory also came with a request: its references were never expanded.
    expanded = now if file.path is not None else {}
    problems += refused(document, now, allow_env=serving.settings.allow_env, expanded=expanded)
    if problems:
        raise ConfigError(problems)
    return _Posted(text=text, document=document)


def _usable(call: Call, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration sent as JSON, with secrets in place of the masks.

    Raises:
        ConfigError: It contains something that may not come through the server.
    """
    serving = call.serving
    values, problems = behind_masks(document_of(tables), serving.written, serving.plugins, serving.mask)
    data: dict[str, Any] = copied(tables)
    for place, value in values.items():
        at(data, place[:-1])[place[-1]] = value
    problems += refused(document_of(data), serving.written, allow_env=(), expanded=None)
    if problems:
        raise ConfigError(problems)
    return data


def _of_checks(serving: Serving, posted: _Posted) -> list[dict[str, Any]]:
    """Return the findings of plugins' checks, for example in validation cases; none prevents serving.

    Files named in a request are also in the operator's file, or the request would have been refused. Their folder is
    hidden from clients, and a line number would refer to the posted text.
    """
    read = read_config(posted.source)
    read.document = attrs.evolve(read.document, source="", folder=serving.folder)
    folder = f"{serving.folder}{os.sep}"
    return [
        {
            "path": ": ".join(filter(None, (flaw.source.replace(folder, ""), flaw.path))),
            "text": serving.mask(flaw.text.replace(folder, "")),
            "line": None,
        }
        for flaw in find_check_problems(read, serving.plugins)
    ]


def _tables(call: Call) -> Any:
    """Return the posted tables unchanged, with their masks and references."""
    if "config" in call.body:
        return call.body["config"]
    return tables_of(call.body["text"], call.body.get("format") or current_file(call.serving).format)


async def _status(serving: Serving) -> dict[str, Any]:
    """List the names of the current configuration's services."""
    async with serving.chat() as chat:
        config = chat.config
    return {"config_loaded": True, "ai_providers": [*config.llms], "rag_providers": [*config.stores]}


def _problems_for_client(serving: Serving, problems: Iterable[Problem]) -> list[Problem]:
    """Convert problems for a client: without secrets, and with their place in the posted text."""
    placed = _placed(serving, problems)
    return [attrs.evolve(each, text=serving.mask(each.text), path=serving.mask(each.path)) for each in placed]


def _placed(serving: Serving, problems: Iterable[Problem]) -> list[Problem]:
    """Return problems; one in another file, which the page does not show, names it in its text."""
    own = serving.source if isinstance(serving.source, Path) and not serving.in_memory else None

    def place(problem: Problem) -> Problem:
        # The configuration's own file is shown, in whichever form it was posted.
        if not problem.source or own is None or Path(problem.source).with_suffix("") == own.with_suffix(""):
            return problem
        source = os.path.relpath(problem.source, serving.folder)
        return Problem(path="", text=str(attrs.evolve(problem, source=source)))

    return [*map(place, problems)]


def _flaws_as_data(problems: Iterable[Problem]) -> list[dict[str, Any]]:
    """Return problems as JSON data."""
    return [{"path": each.path, "text": each.text, "line": each.line} for each in problems]


def _count(flaws: Sized) -> str:
    return f"the configuration has {counted(len(flaws), 'problem')}"
