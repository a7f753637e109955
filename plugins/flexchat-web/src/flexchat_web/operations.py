"""What an operation of the API is: one record serves routing, checking, and the OpenAPI document alike."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

import attrs

if TYPE_CHECKING:
    from flexchat import FlexChat, ModelInfo, PendingQuestion, Principal, Problem, ProviderError, StreamEvent, Turn
    from flexchat.host import ConfigDocument
    from starlette.types import Receive, Scope, Send

    from .access_tokens import Trust as _Trust
    from .apart import Apart as _Apart
    from .identity import Identity as _Identity
    from .problems import ApiError as _ApiError
    from .serving import Serving

Schema = Mapping[str, Any]
Lists: TypeAlias = "Mapping[str, tuple[ModelInfo, ...] | ProviderError]"
"""The models of each LLM, or why it does not list them."""


@attrs.frozen(kw_only=True)
class Call:
    """A request that has passed every check.

    Attributes:
        web: What a plugin's operation needs from this package.
        body: JSON data that fits the operation's schema; None without a body. See also Operation.unread.
        query: The query's parameters, converted according to their schemas, with defaults.
        path: The path's parameters.
        tenant: The tenant making the request.
        may_edit: Whether it may change the configuration.
        wants_stream: Whether the client asks for server-sent events in its Accept header.
        last_event_id: Number of the last event the client has, when it rejoins a stream; 0 for none.
        key: Its Idempotency-Key, if it sent one and the operation accepts it.
        retries: The number of earlier attempts that the client reports, as OpenAI's clients do.
        base: Path under which the application is mounted; empty at the root.
        secure: Whether the browser talks TLS, to this server or to a proxy in front of it.
        session: Id of the browser's session; empty if it has none.
        is_stranger: Whether it has no token where one is required, or came by a name that is not the server's.
        files: Those of its body by their SHA-256 digest, if the server keeps no media.
    """

    serving: Serving
    web: Web
    body: Any = None
    query: Mapping[str, Any] = attrs.field(factory=dict)
    path: Mapping[str, str] = attrs.field(factory=dict)
    tenant: str = "default"
    may_edit: bool = False
    wants_stream: bool = False
    last_event_id: int = 0
    key: str | None = None
    retries: int = 0
    base: str = ""
    secure: bool = False
    session: str = ""
    is_stranger: bool = False
    files: Mapping[str, bytes] = attrs.field(factory=dict, repr=False)

    @property
    def user(self) -> str:
        """The name under which the client acts, for records: its token's tenant, or "web"."""
        return self.tenant if self.serving.authentication.is_required else "web"


@attrs.frozen(kw_only=True)
class Upload:
    """A body while it arrives.

    Attributes:
        pieces: The body. Reading it raises ApiError (408: it arrives too slowly) and ClientDisconnect.
        length: Bytes, as its sender states them; None if it does not.
        files: Those received, by their digest, if the server keeps no media; filled while a form is read.
    """

    serving: Serving
    tenant: str
    content_type: str
    pieces: AsyncGenerator[bytes, None]
    length: int | None = None
    files: dict[str, bytes] = attrs.field(factory=dict)


@attrs.frozen
class Json:
    """An answer in JSON."""

    data: Any
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Written:
    """An answer in JSON that is already encoded: another process made it."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Text:
    """An answer that is not JSON, or empty (status 204)."""

    text: str = ""
    status: int = 200
    media_type: str = "text/plain"
    headers: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class Event:
    """A server-sent event. name None: only data, as in OpenAI's streams. data that is not text is written as JSON.

    Attributes:
        id: Its number, if a client may come back for later ones.
        comment: Sent in the place of an event: clients skip it, and connections stay open.
    """

    name: str | None
    data: Any
    id: int | None = None
    comment: str = ""


@attrs.frozen
class Stream:
    """An answer of server-sent events. The generator is closed when the client leaves.

    What it raises before its first event is answered as if the operation had raised it.

    Attributes:
        stopped: The last event if the server is stopped; None for an error event.
    """

    events: AsyncGenerator[Event, None]
    headers: Mapping[str, str] = attrs.field(factory=dict)
    stopped: Event | None = None


@attrs.frozen
class Bytes:
    """An answer of bytes that is sent while it is read. The generator is closed when the client leaves.

    Attributes:
        first: The first bytes: with them the answer begins.
        pieces: Those after them.
    """

    first: bytes
    pieces: AsyncGenerator[bytes, None]
    media_type: str
    headers: Mapping[str, str] = attrs.field(factory=dict)


Reply = Json | Written | Text | Stream | Bytes
Handler = Callable[[Call], Awaitable[Reply]]
ChatHandler: TypeAlias = "Callable[[Call, FlexChat], Awaitable[Reply]]"
"""A handler that gets the current chat, lent to it until it returns."""

Handle = TypeVar("Handle", Handler, ChatHandler)
Tag = Literal[
    "chat", "media", "conversations", "turns", "effects", "tools", "validation", "configuration", "openai", "server"
]


@attrs.frozen(kw_only=True)
class Operation:
    """One operation: a method on a path.

    Attributes:
        path: With its parameters in braces: "/api/conversations/{id}"; "{id:path}" may contain slashes. name: The
        operationId. body: JSON Schema of the body; None takes none. body_required: Whether there must be one. unread:
        Whether its handler gets the raw body, checking.Unread, to read it where it does its work. max_body_bytes: Of a
        body; Settings.max_body_bytes may allow less. query: JSON Schema of each parameter; "string", "integer" and
        "boolean" are known. answers: JSON Schema of each status it answers with, except problems; None: not JSON.
        media: Media types of answers that are not JSON. streams: Whether it may answer with server-sent events.
        resumes: Whether its events are numbered, and it continues after the one named in the header Last-Event-ID.
        takes_key: Whether it does something once for each Idempotency-Key.
        edits: Whether it changes the configuration, which the server and the roles must permit. permission: What a
        principal needs where there are roles: "edit", "view_costs". open: Whether it needs no token. openai_errors:
        Whether problems are sent in OpenAI's format. links: OpenAPI's Link Objects by name: further requests that use a
        successful answer's data. refusal: From a body that does not fit its schema to the sentence that refuses it, if
        a specification prescribes one; None for the usual one. uploads: Readers of bodies that are not JSON, while they
        arrive, by media type ("*/*": of all others); what one returns has to fit the schema, if there is one.
        base64_at: Keys of the fields, ("attachments", "data") for those in a list, whose long texts are memoryviews of
        the body, to be decoded in place: as texts, they would be copies.
    """

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    name: str
    summary: str
    tag: Tag
    handle: Handler
    answers: Mapping[int, Schema | None]
    body: Schema | None = None
    body_required: bool = True
    unread: bool = False
    max_body_bytes: int = 1024 * 1024
    query: Mapping[str, Schema] = attrs.field(factory=dict)
    problems: tuple[int, ...] = ()
    media: tuple[str, ...] = ("text/plain",)
    streams: bool = False
    resumes: bool = False
    takes_key: bool = False
    edits: bool = False
    permission: str = ""
    open: bool = False
    openai_errors: bool = False
    links: Mapping[str, Schema] = attrs.field(factory=dict)
    refusal: Callable[[Any], str | None] | None = None
    uploads: Mapping[str, Callable[[Upload], Awaitable[Any]]] = attrs.field(factory=dict)
    base64_at: tuple[str, ...] | None = None

    @property
    def takes_body(self) -> bool:
        """Whether a request may have a body."""
        return self.body is not None or bool(self.uploads)


class Operations:
    """The operations of a module. It decorates their handlers, whose names and docstrings are those of the operations.

    A handler takes the call and, if it has a second parameter, the current chat, which is lent to it.

    Args:
        common: Fields of Operation, for operations that declare no others.

    Attributes:
        declared: The operations, in the order of their handlers.
    """

    def __init__(self, tag: Tag, **common: Any) -> None:
        self._common = {"tag": tag, **common}
        self.declared: list[Operation] = []

    def __call__(
        self, method: str, path: str, *, name: str = "", answer: Schema | None = None, **fields: Any
    ) -> Callable[[Handle], Handle]:
        """Declare an operation.

        Args:
            answer: The schema of its answer with status 200, instead of ``answers``.
            fields: Those of Operation, instead of those all have in common.
        """

        def declare(handle: Handle) -> Handle:
            takes_chat = len(inspect.signature(handle).parameters) == 2
            fields.update(method=method, path=path, handle=_lending(handle) if takes_chat else handle)
            summary = (handle.__doc__ or "").partition("\n")[0]
            names = {"name": name or handle.__name__, "summary": summary, "answers": {200: answer}}
            self.declared.append(Operation(**{**names, **self._common, **fields}))
            return handle

        return declare


def _lending(handle: Callable[..., Awaitable[Reply]]) -> Handler:
    @functools.wraps(handle)
    async def lend(call: Call) -> Reply:
        async with call.serving.chat() as chat:
            return await handle(call, chat)

    return lend


@attrs.frozen(kw_only=True)
class ModelFact:
    """A fact that a plugin adds to each model in the list of models.

    Attributes:
        name: Its key in the entry of a model.
        schema: JSON Schema of its value.
        values: From a call, the chat and the ids of models ("LLM/MODEL") to the values, by id.
        models: From the chat to models that join the list though no rule names them and no LLM lists them.
    """

    name: str
    schema: Schema
    values: Callable[[Call, FlexChat, Sequence[str]], Awaitable[Mapping[str, Any]]]
    models: Callable[[FlexChat], Iterable[str]] = lambda _: ()


@attrs.frozen(kw_only=True)
class Page:
    """A plugin's page, next to ours: a JavaScript module and what it needs.

    Attributes:
        name: In the address, "#/glossary": lower-case letters and _.
        label: In the navigation.
        folder: Where its files are; they are served below static/plugins/NAME/, so that "../../js/dom.js" is ours.
        script: The module, a file in the folder; static/js/router.js documents its exports.
        styles: Its stylesheets, files in the folder.
        after: Name of the page it follows in the navigation; empty: at the end.
        icon: Its icon in the navigation, a name from static/js/icons.js: "list", "document", "history", …
        count: Path of a GET operation that answers {"count": …}, the number of items that need a person: it is shown in
            the navigation. Empty for none.
    """

    name: str = attrs.field(validator=attrs.validators.matches_re("[a-z_]{1,40}"))
    label: str
    folder: Path
    script: str
    styles: tuple[str, ...] = ()
    after: str = ""
    icon: str = ""
    count: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Convert the page's description for the browser."""
        at = f"plugins/{self.name}/"
        files = {"script": at + self.script, "styles": [at + style for style in self.styles]}
        entry = {"name": self.name, "label": self.label, "after": self.after, "icon": self.icon}
        return {**entry, "count": self.count.lstrip("/"), **files}


@attrs.frozen(kw_only=True)
class Admission:
    """How a mounted app judges a bearer token that is not among the server's own.

    Attributes:
        tenant: Whose token it is; None if the app does not accept it.
        principal: On whose behalf its client acts.
        challenge: The header WWW-Authenticate for a client that nothing admits; empty: the app judges no tokens.
    """

    tenant: str | None = None
    principal: Principal | None = None
    challenge: str = ""


@attrs.frozen(kw_only=True)
class MountedApp:
    """A plugin's own ASGI app under a path of the server, behind the same guard, tokens and tenants.

    Attributes:
        path: "/mcp": the app answers this and everything below it.
        handle: Answers a request, whose tenant is in scope["flexchat.tenant"]. It raises ApiErrors as operations do.
        open_paths: Further paths it answers, for clients without a token.
        admit: Judges a bearer token; empty if the request has none.
    """

    path: str
    handle: Callable[[Serving, Scope, Receive, Send], Awaitable[None]]
    open_paths: tuple[str, ...] = ()
    admit: Callable[[Serving, str], Awaitable[Admission]] | None = None

    def answers(self, path: str) -> bool:
        """Return whether a request for this path is the app's."""
        return path == self.path or path.startswith(f"{self.path}/") or path in self.open_paths


# Within the protocol, the plain names are its properties.
_Operation = Operation
_Page = Page
_ModelFact = ModelFact
_MountedApp = MountedApp
_Admission = Admission
_Json = Json
_Written = Written
_Text = Text
_Stream = Stream
_Event = Event


class Web(Protocol):
    """What plugins build operations, pages and answers with: the module flexchat_web.plugin_api."""

    Operation: type[_Operation]
    """A method on a path."""

    Page: type[_Page]
    """A page beside ours."""

    MountedApp: type[_MountedApp]
    """An ASGI app under a path."""

    Admission: type[_Admission]
    """A mounted app's judgement of a token."""

    Trust: type[_Trust]
    """Whose tokens are accepted by ``serving.authentication.verifier.verify(token, trust)``."""

    ModelFact: type[_ModelFact]
    """A fact about each model in the list of models."""

    Json: type[_Json]
    """An answer in JSON."""

    Written: type[_Written]
    """An answer in JSON that is already encoded."""

    Text: type[_Text]
    """An answer that is not JSON, or empty."""

    Stream: type[_Stream]
    """An answer of server-sent events."""

    Event: type[_Event]
    """A server-sent event."""

    ApiError: type[_ApiError]
    """A problem that an operation answers with."""

    Apart: type[_Apart]
    """Long work in other processes: ``await web.Apart.of(call.serving).run(function, …)``."""

    TOOL_CALL: Schema
    """JSON Schema of a tool call in an answer."""

    TURN_PROBLEMS: tuple[int, ...]
    """Statuses of the problems of an operation that runs a turn; see Operation.problems."""

    def identity_of(self, tenant: object, name: object, roles: Iterable[object]) -> _Identity:
        """Check the names that come with a token.

        Raises:
            ValueError: One is no name.
        """

    def encoded(self, data: Any) -> bytes:
        """Encode data as JSON."""

    def events_of(
        self, turn: AsyncGenerator[StreamEvent, None], last: Callable[[Turn], Awaitable[_Event]]
    ) -> AsyncGenerator[_Event, None]:
        """Convert a turn to server-sent events; ``last`` makes the last one."""

    def pending_data(self, pending: PendingQuestion) -> dict[str, Any]:
        """Convert a kept question for clients: as in /api/questions."""

    def record_reply(self, call: Call, chat: FlexChat, id: str, *, tenant: str, by: str) -> Awaitable[str]:
        """Record the reply in a call's body, and let the question's turn go on; return the question's whole id.

        Raises:
            FlexChatError: As FlexChat.answer.
        """

    def chosen_model(self, chat: FlexChat, model_id: str) -> tuple[str, str]:
        """Split "LLM/MODEL" into the service and its model.

        Raises:
            UnknownNameError: No configured service is meant.
        """

    def listed_models(self, serving: Serving, chat: FlexChat, *, refresh: bool = False) -> Awaitable[Lists]:
        """List the models of each LLM; a minute old at most."""

    def named_models(self, serving: Serving, chat: FlexChat) -> Mapping[str, tuple[str, str]]:
        """List the models that the configuration names: service and model by "LLM/MODEL"."""

    def refused(
        self,
        posted: ConfigDocument,
        file: Mapping[str, Any],
        *,
        allow_env: Collection[str],
        expanded: Mapping[str, Any] | None,
    ) -> list[Problem]:
        """List what a configuration in a request contains that may not come through the server."""
