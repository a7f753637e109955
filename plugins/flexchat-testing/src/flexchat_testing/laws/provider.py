"""The laws of a provider, together."""

from __future__ import annotations

from .answer_laws import AnswerLaws
from .error_laws import ErrorLaws
from .request_laws import RequestLaws
from .service_laws import ServiceLaws
from .stream_laws import StreamLaws


class ProviderConformance(AnswerLaws, RequestLaws, StreamLaws, ErrorLaws, ServiceLaws):
    """What every provider keeps, checked without a network.

    Subclass it, say what the provider ``supports``, and write, in the service's own wire format, what it would answer:
    ``text_reply``, ``error_reply``, and for each capability the methods it asks for (wire.py lists them all). The kit
    serves these answers over the transport that ``make_provider`` is given.

        class TestParrot(ProviderConformance):
            supports = {"http", "streaming", "tools"}
            tool_formats = {"parrot": encode_tools}

            def make_provider(self, transport):
                return Parrot(ParrotConfig(api_key=self.key), transport=transport)

            def text_reply(self, text, *, finish="stop"):
                return {"text": text, "finish": finish}
            …
    """
