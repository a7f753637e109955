"""Signing in and out: a browser keeps its token in a cookie that scripts cannot read."""

from __future__ import annotations

from ..operations import Call, Operation, Reply, Text
from ..problems import ApiError
from ..signing_in import cookie, tenant_of
from .shapes import TEXT, taken


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
    return Text(status=204, headers={"set-cookie": cookie(given, base=call.base, secure=call.secure)})


async def _sign_out(call: Call) -> Reply:
    return Text(status=204, headers={"set-cookie": cookie("", base=call.base, secure=call.secure)})


OPERATIONS = (
    Operation(
        method="POST",
        path="/api/session",
        name="sign_in",
        summary="Store a token in a browser cookie.",
        tag="server",
        handle=_sign_in,
        body=taken({"token": {**TEXT, "maxLength": 1000}}),
        answers={204: None},
        problems=(401, 404),
        open=True,
    ),
    Operation(
        method="DELETE",
        path="/api/session",
        name="sign_out",
        summary="Delete the token's browser cookie.",
        tag="server",
        handle=_sign_out,
        answers={204: None},
        open=True,
    ),
)
