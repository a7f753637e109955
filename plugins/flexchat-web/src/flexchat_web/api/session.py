"""Signing in and out: a browser keeps the id of its session in a cookie that scripts cannot read."""

from __future__ import annotations

from ..operations import Call, Operation, Reply, Text
from ..problems import ApiError
from ..sessions import Sessions
from ..signing_in import cookie, tenant_of
from .shapes import TEXT, body_schema


async def _sign_in(call: Call) -> Reply:
    given, tokens = call.body["token"].strip(), call.serving.settings.tokens
    if not tokens:
        raise ApiError(404, "this server does not require a token", kind="no-tokens")
    if tenant_of(given, tokens) is None:
        raise ApiError(
            401,
            "the server does not accept this token: check that it is complete, or ask whoever runs the server",
            kind="token",
            headers={"www-authenticate": 'Bearer error="invalid_token"'},
        )
    session = await Sessions.of(call.serving).begin(given)
    return Text(status=204, headers={"set-cookie": cookie(session, base=call.base, secure=call.secure)})


async def _sign_out(call: Call) -> Reply:
    if call.session:
        await Sessions.of(call.serving).end(call.session)
    return Text(status=204, headers={"set-cookie": cookie("", base=call.base, secure=call.secure)})


OPERATIONS = (
    Operation(
        method="POST",
        path="/api/session",
        name="sign_in",
        summary="Begin a session with a token; its id is kept in a browser cookie.",
        tag="server",
        handle=_sign_in,
        body=body_schema({"token": {**TEXT, "maxLength": 1000}}),
        answers={204: None},
        problems=(401, 404, 503),
        open=True,
    ),
    Operation(
        method="DELETE",
        path="/api/session",
        name="sign_out",
        summary="End the browser's session.",
        tag="server",
        handle=_sign_out,
        answers={204: None},
        open=True,
    ),
)
