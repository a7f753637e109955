"""Signing in and out: a browser keeps the id of its session in a cookie that scripts cannot read."""

from __future__ import annotations

from ..operations import Call, Operations, Reply, Text
from ..problems import ApiError
from ..sessions import Sessions, cookie, tenant_of
from ..shapes import TEXT, body_schema

operation = Operations("server")


@operation(
    "POST",
    "/api/session",
    body=body_schema({"token": {**TEXT, "maxLength": 1000}}),
    answers={204: None},
    problems=(401, 404, 503),
    open=True,
)
async def sign_in(call: Call) -> Reply:
    """Begin a session with a token; its id is kept in a browser cookie."""
    token, tokens = call.body["token"].strip(), call.serving.settings.tokens
    if not tokens:
        raise ApiError(404, "this server does not require a token", kind="no-tokens")
    if tenant_of(token, tokens) is None:
        raise ApiError(
            401,
            "the server does not accept this token: check that it is complete, or ask whoever runs the server",
            kind="token",
            headers={"www-authenticate": 'Bearer error="invalid_token"'},
        )
    session = await Sessions.of(call.serving).begin(token)
    return Text(status=204, headers={"set-cookie": cookie(session, base=call.base, secure=call.secure)})


@operation("DELETE", "/api/session", answers={204: None}, open=True)
async def sign_out(call: Call) -> Reply:
    """End the browser's session."""
    if call.session:
        await Sessions.of(call.serving).end(call.session)
    return Text(status=204, headers={"set-cookie": cookie("", base=call.base, secure=call.secure)})
