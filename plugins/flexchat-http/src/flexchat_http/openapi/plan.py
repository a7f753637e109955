"""The data that a tool stores from its document: plain JSON with everything a request needs besides the arguments."""

from __future__ import annotations

from typing import Literal, TypedDict

from .security import Scheme

Place = Literal["path", "query", "header", "cookie"]


class Parameter(TypedDict, total=False):
    """The destination of one argument.

    Defaults of absent keys: style and explode of the location (``request.py``), no allow_reserved, not required.
    """

    argument: str
    name: str
    place: Place
    style: str
    explode: bool
    allow_reserved: bool
    content: str  # a media type: the value is sent as this, instead of in a style


class Encoding(TypedDict, total=False):
    """The encoding of one form property."""

    content: str
    style: str
    explode: bool
    allow_reserved: bool


class Body(TypedDict, total=False):
    """The request's body.

    Attributes:
        media: The Content-Type sent; a multipart's boundary is added.
        kind: "json"; "form"; "multipart"; "text"; or "bytes": the argument is base64.
        required: Whether it is sent even if no argument is given.
        argument: The argument that is the whole body.
        properties: Otherwise: the property of the body by argument.
        encoding: Of a form's properties, by their names in the body.
        files: Properties of a multipart that are base64: each is sent as a file.
    """

    media: str
    kind: Literal["json", "form", "multipart", "text", "bytes"]
    required: bool
    argument: str
    properties: dict[str, str]
    encoding: dict[str, Encoding]
    files: list[str]


class Plan(TypedDict, total=False):
    """The request template of an operation.

    Attributes:
        method: In upper case.
        server: The server's URL, without a trailing slash.
        path: The path with a ``{placeholder}`` per path parameter.
        security: Alternatives, each a list of schemes that are used together.
    """

    operation: str
    method: str
    server: str
    path: str
    parameters: list[Parameter]
    body: Body
    security: list[list[Scheme]]
    accept: str
