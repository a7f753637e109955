"""The laws of a provider, together."""

from __future__ import annotations

from .answer_laws import AnswerLaws
from .error_laws import ErrorLaws
from .request_laws import RequestLaws
from .service_laws import ServiceLaws
from .socket_laws import SocketLaws
from .stream_laws import StreamLaws


class ProviderConformance(AnswerLaws, RequestLaws, StreamLaws, ErrorLaws, ServiceLaws, SocketLaws):
    """The laws of every provider, checked without a network.

    Subclass it, set ``supports``, and write the service's answers in its own wire format: ``text_reply``,
    ``error_reply``, and the methods of each capability (wire.py lists them all). The kit serves these answers over the
    transport passed to ``make_provider``.

        class TestParrot(ProviderConformance):
            supports = {"http", "streaming", "tools"}
            tool_formats = {"parrot": encode_tools}

            def make_provider(self, transport):
                return Parrot(ParrotConfig(api_key=self.key), transport=transport)

            def text_reply(self, text, *, finish="stop"):
                return {"text": text, "finish": finish}
            …
    """
