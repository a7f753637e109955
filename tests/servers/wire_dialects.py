"""How each provider's service says "Hello world", whole and streamed: what fault_server.py damages.

A dialect is a few lines: the answer as JSON, its stream as frames, and what else a service may send.
"""

import json
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import attrs
from flexchat.config.model import LLMEntry
from flexchat.llms.llm import LLM
from flexchat.llms.open import Configured, open_llm

KEY = "canary-key-4711"


def sse(event: Any) -> bytes:
    data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
    return f"data: {data}\n\n".encode()


def named_sse(event: Any) -> bytes:
    name = event["type"] if isinstance(event, dict) else "message"
    return f"event: {name}\n".encode() + sse(event)


def ndjson(event: Any) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode() + b"\n"


@attrs.frozen(kw_only=True)
class Dialect:
    """A wire format.

    Attributes:
        name: Of the tool format.
        module: The plugin that registers the provider.
        settings: Of the provider, beside address, key and times.
        path: Behind the server's address.
        frame: From an event to its bytes.
        whole: A whole answer that says a text.
        begin, say, end: The stream of such an answer: what comes first, a piece of text, what ends a whole text.
        call: Events in which a tool call begins and does not end.
        hollow, hollow_whole: An answer with null in place of what it should hold, streamed and whole.
        failed, failed_whole: What a failing service sends with status 200, streamed and whole.
        rare: Events that come in some streams: thoughts, refusals, usage, other media. For benchmarks/fuzz_decoders.py.
        says_when_it_ends: Whether its last event means that nothing follows.
    """

    name: str
    module: str
    settings: dict[str, Any] = attrs.field(factory=dict)
    path: str = ""
    frame: Callable[[Any], bytes] = sse
    whole: Callable[[str], dict[str, Any]]
    begin: Sequence[Any] = ()
    say: Callable[[str], dict[str, Any]]
    end: Callable[[str], Sequence[Any]]
    call: Sequence[Any]
    hollow: Any
    hollow_whole: Any = attrs.field(default=attrs.Factory(lambda self: self.hollow, takes_self=True))
    failed: Any
    failed_whole: Any = attrs.field(default=attrs.Factory(lambda self: self.failed, takes_self=True))
    rare: Sequence[Any] = ()
    says_when_it_ends: bool = True

    @property
    def is_sse(self) -> bool:
        return self.frame is not ndjson

    def frames(self, pieces: Sequence[str]) -> list[bytes]:
        """The stream of an answer, frame by frame."""
        return [self.frame(event) for event in (*self.begin, *map(self.say, pieces), *self.end("".join(pieces)))]

    def service(self, url: str, **times: float) -> Configured:
        """An llms entry for this dialect."""
        kind = next(iter(import_module(self.module).flexchat_register_providers()))
        return Configured(kind, kind.config_class(base_url=url + self.path, api_key=KEY, **self.settings, **times))

    def open(self, url: str, *, retries: int = 0, **times: float) -> LLM:
        """The service as FlexChat opens it."""
        entry = LLMEntry(provider=self.name, retries=retries, retry_delay_ms=1)
        return open_llm(self.name, self.service(url, **times), entry)


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c-1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]}


def _completion(text: str) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"id": "c-1", "object": "chat.completion", "model": "m-1", "choices": [choice], "usage": usage}


CHAT = Dialect(
    name="openai",
    module="flexchat_openai.plugin",
    settings={"api": "chat"},
    path="/v1",
    whole=_completion,
    begin=[_chunk({"role": "assistant", "content": None})],
    say=lambda text: _chunk({"content": text}),
    end=lambda text: [_chunk({}, "stop"), "[DONE]"],
    call=[
        _chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather"}}]}),
        _chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"location": "Ro'}}]}),
    ],
    hollow={"id": "c-1", "object": "chat.completion", "model": "m-1", "choices": None},
    failed={"error": {"message": "The server had an error", "type": "server_error", "code": "server_error"}},
    rare=[
        _chunk({"reasoning_content": "Hm."}),
        _chunk({"reasoning_details": [{"type": "reasoning.text", "text": "Hm.", "index": 0, "signature": "s"}]}),
        _chunk({"refusal": "No."}),
        _chunk({"content": [{"type": "text", "text": "part"}, {"type": "image_url", "image_url": {"url": "x"}}]}),
        _chunk({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}, "tool_calls"),
        _chunk({"function_call": {"name": "f", "arguments": "{}"}}),
        _chunk({"annotations": [{"type": "url_citation", "url_citation": {"url": "x"}}]}),
        {"id": "c-1", "choices": [], "usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}}},
        {"x_groq": {"usage": {"completion_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 1}}}},
    ],
)


def _response(status: str, output: list[Any], **rest: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    about = {"id": "resp_1", "object": "response", "model": "m-1", "status": status, "created_at": 1}
    return {**about, "output": output, "usage": usage, "error": None, "incomplete_details": None, **rest}


def _item(text: str, status: str = "completed") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": [part]}


_CALL_ITEM = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": ""}
_FAILURE = {"code": "server_error", "message": "The server had an error"}


RESPONSES = Dialect(
    name="openai.responses",
    module="flexchat_openai.plugin",
    settings={"api": "responses"},
    path="/v1",
    frame=named_sse,
    whole=lambda text: _response("completed", [_item(text)]),
    begin=[
        {"type": "response.created", "response": _response("in_progress", [])},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**_item("", "in_progress"), "content": []},
        },
        {"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0, "content_index": 0}
        | {"part": {"type": "output_text", "text": "", "annotations": []}},
    ],
    say=lambda text: (
        {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0}
        | {"delta": text}
    ),
    end=lambda text: [
        {"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0, "content_index": 0, "text": text},
        {"type": "response.output_item.done", "output_index": 0, "item": _item(text)},
        {"type": "response.completed", "response": _response("completed", [_item(text)])},
    ],
    call=[
        {"type": "response.output_item.added", "output_index": 1, "item": _CALL_ITEM},
        {"type": "response.function_call_arguments.delta", "item_id": "fc_1", "output_index": 1, "delta": '{"loca'},
    ],
    hollow={"type": "response.completed", "response": {**_response("completed", []), "output": None}},
    hollow_whole={**_response("completed", []), "output": None},
    failed={"type": "response.failed", "response": _response("failed", [], error=_FAILURE)},
    failed_whole=_response("failed", [], error=_FAILURE),
    rare=[
        {"type": "error", **_FAILURE, "param": None},
        {"type": "response.incomplete"}
        | {"response": _response("incomplete", [_item("Hello")], incomplete_details={"reason": "max_output_tokens"})},
        {"type": "response.output_item.done", "output_index": 1}
        | {"item": {**_CALL_ITEM, "arguments": "{}", "status": "completed", "namespace": "n"}},
        {"type": "response.output_item.done", "output_index": 2}
        | {"item": {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}}
        | {"encrypted_content": "e"},
        {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 2, "summary_index": 0}
        | {"delta": "Hm."},
        {"type": "response.refusal.delta", "item_id": "msg_1", "output_index": 0, "content_index": 1, "delta": "No."},
        {"type": "response.output_item.done", "output_index": 3, "item": {"type": "web_search_call", "id": "ws_1"}},
    ],
)


def _ollama(text: str, *, done: bool = False, **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": text, **message}
    end = {"done_reason": "stop", "total_duration": 5, "prompt_eval_count": 10, "eval_count": 5} if done else {}
    return {"model": "m-1", "created_at": "2026-01-01T00:00:00Z", "message": said, "done": done, **end}


OLLAMA = Dialect(
    name="ollama",
    module="flexchat_ollama.plugin",
    settings={"check_models": False},  # else it asks about the model first
    frame=ndjson,
    whole=lambda text: _ollama(text, done=True),
    say=_ollama,
    end=lambda text: [_ollama("", done=True)],
    call=[_ollama("", tool_calls=[{"function": {"name": "get_weather", "arguments": {"location": "Rome"}}}])],
    hollow={"model": "m-1", "message": None},
    failed={"error": "an error was encountered while running the model: unexpected EOF"},
    rare=[
        _ollama("", thinking="Hm."),
        _ollama("", images=["aGk="]),
        _ollama('{"name": "get_weather", "arguments": {}}'),
        {"model": "m-1", "done": True, "done_reason": "load"},
        {"logprobs": [{"token": "a", "logprob": -1.0}], **_ollama("a")},
    ],
)


def _gemini(part: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": [part], "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m-1", "responseId": "r-1"}


GEMINI = Dialect(
    name="gemini",
    module="flexchat_gemini.plugin",
    whole=lambda text: _gemini({"text": text}, "STOP"),
    say=lambda text: _gemini({"text": text}),
    end=lambda text: [_gemini({"text": ""}, "STOP")],
    call=[_gemini({"functionCall": {"name": "get_weather", "args": {"location": "Rome"}}})],
    hollow={"candidates": None, "modelVersion": "m-1"},
    failed={"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}},
    rare=[
        _gemini({"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"}),
        _gemini({"inlineData": {"mimeType": "image/png", "data": "aGk="}}),
        _gemini({"executableCode": {"language": "PYTHON", "code": "1"}}),
        _gemini({"functionCall": {"id": "1", "name": "f", "args": {}}, "thoughtSignature": "c2ln"}, "STOP"),
        _gemini({"text": ""}, "MALFORMED_FUNCTION_CALL"),
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"candidates": [{"finishReason": "SAFETY", "safetyRatings": [{"category": "x", "blocked": True}]}]},
        {"candidates": [{"groundingMetadata": {"groundingChunks": [{"web": {"uri": "x", "title": "y"}}]}}]},
        {"usageMetadata": {"thoughtsTokenCount": 1, "cachedContentTokenCount": 1}},
    ],
    says_when_it_ends=False,
)

_USAGE = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5}


def _message(content: list[Any], stop: str | None = "end_turn", **rest: Any) -> dict[str, Any]:
    about = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": content}
    return {**about, "stop_reason": stop, "stop_sequence": None, "usage": _USAGE, **rest}


def _block(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, kind: str, **delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **delta}}


_OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}

ANTHROPIC = Dialect(
    name="anthropic",
    module="flexchat_anthropic.plugin",
    settings={"max_tokens": 4096},  # else it asks about the model first
    frame=named_sse,
    whole=lambda text: _message([{"type": "text", "text": text}]),
    begin=[
        {"type": "message_start", "message": _message([], None)},
        _block(0, {"type": "text", "text": ""}),
        {"type": "ping"},
    ],
    say=lambda text: _delta(0, "text_delta", text=text),
    end=lambda text: [
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ],
    call=[
        _block(1, {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}),
        _delta(1, "input_json_delta", partial_json='{"location": "Ro'),
    ],
    hollow={"type": "message_start", "message": None},
    hollow_whole=_message([]) | {"content": None},
    failed=_OVERLOADED,
    rare=[
        _block(1, {"type": "thinking", "thinking": "", "signature": ""}),
        _delta(1, "thinking_delta", thinking="Hm."),
        _delta(1, "signature_delta", signature="s"),
        _block(2, {"type": "redacted_thinking", "data": "e"}),
        _block(3, {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
        _delta(3, "input_json_delta", partial_json='{"query": "x"}'),
        _block(4, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "x"}]}),
        _delta(0, "citations_delta", citation={"type": "web_search_result_location", "url": "x"}),
        _block(5, {"type": "compaction", "content": None}),
        _delta(5, "compaction_delta", content="so far"),
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "refusal", "stop_details": {"type": "refusal"}},
            "usage": None,
        },
        {"type": "message_delta", "delta": {"stop_reason": "pause_turn", "container": {"id": "c"}}, "usage": _USAGE},
    ],
)

DIALECTS = (CHAT, RESPONSES, OLLAMA, GEMINI, ANTHROPIC)
