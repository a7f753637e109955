"""The laws of providers fit a service without a key, whose protocol has a single prompt and no tools."""

import functools
from collections.abc import Sequence

import attrs
import pytest
from flexchat.plugin import ChatResult
from flexchat_sdk import (
    AnswerParts,
    Body,
    ChatOptions,
    HttpSettings,
    Message,
    ModelInfo,
    Refusals,
    Row,
    Service,
    Unreadable,
    key,
    known_text,
    object_of,
    read_report,
    text_in,
    usage_of,
    web_address,
)
from flexchat_testing import ProviderConformance
from flexchat_testing.card import verdicts_of

REFUSALS = Refusals(
    provider="plain",
    read=functools.partial(read_report, code="kind"),
    rows=(Row("rate", codes=("rate",)), Row("overloaded", codes=("overloaded",))),
)
HONOURED = ("max_tokens", "temperature", "top_p", "seed", "stop")


@attrs.frozen(kw_only=True)
class PlainConfig(HttpSettings):
    """A service on this machine."""

    base_url: str = key("Address.", default="http://127.0.0.1:8080", validator=web_address)


class PlainAnswer:
    def __init__(self, parts):
        self._parts = parts

    def take(self, piece, name=""):
        yield from ()

    def whole(self, body):
        body = object_of(body, "the body")
        if text := text_in(body, "text"):
            yield self._parts.text(text)
        if "finish" not in body:
            raise Unreadable("stopped before the end of its answer", cut_off=True)
        usage = usage_of(body.get("usage"), input="input", output="output")
        yield from self._parts.end(known_text(body["finish"]), usage=usage, model=known_text(body.get("model")))

    def end(self):
        yield from ()


class PlainProvider:
    """A service that continues a text."""

    name = "plain"

    def __init__(self, config, *, transport=None):
        self._service = Service("plain", config, refusals=REFUSALS, keys=(), transport=transport)
        self.endpoint, self.aclose = self._service.endpoint, self._service.aclose

    def tool_format(self, model: str) -> str:
        return self.name

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        fields = {"model": model, "prompt": "\n".join(f"{m.role}: {m.content}" for m in messages)}
        fields |= {name: getattr(options, name) for name in HONOURED if getattr(options, name) not in (None, ())}
        unread = [name for name in ("response_format", "reasoning") if getattr(options, name) is not None]
        warnings = tuple(f"{name} is ignored by this service" for name in unread)
        body = Body.of({**fields, **options.extra}, {}, warnings)
        answer = PlainAnswer(AnswerParts("plain", self.endpoint))
        return await self._service.answer("/complete", body, answer, model=model, timeout_s=options.timeout_s)

    async def list_models(self) -> Sequence[ModelInfo]:
        return ()


class Plain(ProviderConformance):
    supports = frozenset({"http"})
    key = None

    def make_provider(self, transport):
        return PlainProvider(PlainConfig(), transport=transport)

    def text_reply(self, text, *, finish="stop"):
        return {"text": text, "finish": finish, "model": "m", "usage": {"input": 11, "output": 7}}

    def error_reply(self, kind):
        status = {"rate": 429, "overloaded": 503, "request": 400}.get(kind)
        return None if status is None else (status, {"error": {"kind": kind, "message": f"{kind}, sorry"}})


@pytest.mark.slow
def test_a_plain_service_keeps_every_law():
    broken = [f"{one.law}: {one.reason}" for one in verdicts_of(Plain, Plain) if one.status == "broken"]

    assert not broken, "\n".join(broken)
