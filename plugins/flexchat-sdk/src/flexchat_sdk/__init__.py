"""For authors of providers: the kit for building a provider over HTTP, and the types it uses.

service.py    Service: the connection; a request goes out, and an answer, a refusal or JSON comes back
body.py       Body: a request, assembled from fields and cached JSON
history.py    History, WireTools: messages and tools in the service's format, encoded once
options.py    option_fields, unsupported_options: options as fields, and a warning for each unsupported one
reading.py    AnswerReader: bytes to JSON (SSE, NDJSON, or your own framing); what an Answer is
building.py   AnswerParts: pieces to events and a ChatResult
text_reader.py TextReader: thoughts and tool calls that a model writes into its text
refusals.py   Refusals, Row: the vendor's own error codes, then one ladder of statuses
embedding.py  Batches: texts to vectors in as many requests as it takes

Use by composition: nothing here is a base class. Each name loads its module on first access; only Service loads an
HTTP client. docs/writing-a-provider.md walks through a provider in 200 lines.
"""

from flexchat.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
