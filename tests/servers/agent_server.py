"""A server that speaks one provider's wire format and plays a model with two rounds of tools.

It is as strict as the services are: every call has exactly one result, opaque data comes back as it was given, nothing
of another service's opaque data is there. What breaks a rule is answered with status 400 and the reason.

The model asks for the weather of Paris, then for that of Rome and a sum at once, and then answers with the three
results as it found them in the request.
"""

import itertools
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType

ROUNDS = (
    ("Let me look.", (("get_weather", {"city": "Paris"}),)),
    ("", (("get_weather", {"city": "Rome"}), ("calculator", {"expression": "12.5 * 8"}))),
)


def sse(*frames):
    return b"".join(f"data: {json.dumps(frame)}\r\n\r\n".encode() for frame in frames)


class Chat:
    """OpenAI Chat Completions, with reasoning the way DeepSeek's servers want it back."""

    provider = "openai"
    base = "/v1"
    settings = MappingProxyType({"api_key": "test-key"})

    def told(self, body):
        """Return, for each turn of the conversation, the calls' results: (name, id, result) in order."""
        turns = []
        open_ids = []
        for message in body["messages"]:
            if message["role"] != "tool":
                assert not open_ids, f"no answer to {open_ids}"
            if message["role"] == "user":
                turns.append([])
            for call in message.get("tool_calls") or ():
                json.loads(call["function"]["arguments"])
                open_ids.append(call["id"])
                turns[-1].append([call["function"]["name"], call["id"], None])
            if message["role"] == "tool":
                open_ids.remove(message["tool_call_id"])
                entry = next(e for e in turns[-1] if e[1] == message["tool_call_id"] and e[2] is None)
                entry[2] = message["content"]
        assert not open_ids, f"no answer to {open_ids}"
        return turns

    def tools(self, body):
        return [tool["function"]["name"] for tool in body["tools"]]

    def whole(self, body, text, calls, opaque):
        message = {"role": "assistant", "content": text or None, "reasoning_content": opaque}
        if calls:
            message["tool_calls"] = [self._call(*call) for call in calls]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return "application/json", json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()

    def streamed(self, body, text, calls, opaque):
        deltas = [{"role": "assistant"}, {"reasoning_content": opaque}]
        deltas += [{"content": letter} for letter in text]
        for index, call in enumerate(calls):
            wire = self._call(*call)
            arguments = wire["function"]["arguments"]
            start = {**wire, "index": index, "function": {**wire["function"], "arguments": ""}}
            rest = [{"index": index, "function": {"arguments": letter}} for letter in arguments]
            deltas += [{"tool_calls": [piece]} for piece in (start, *rest)]
        frames = [{"id": "c", "model": "m", "choices": [{"index": 0, "delta": d}]} for d in deltas]
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}]}
        return "text/event-stream", sse(*frames, last) + b"data: [DONE]\n\n"

    def _call(self, call_id, name, arguments):
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


class Responses:
    """OpenAI Responses, stateless, with encrypted reasoning."""

    provider = "openai"
    base = "/v1"
    settings = MappingProxyType({"api_key": "test-key", "api": "responses"})

    def told(self, body):
        assert body["store"] is False
        turns = []
        open_ids = []
        before = None
        for item in body["input"]:
            kind = item.get("type", "message")
            if before == "reasoning":
                assert kind in ("message", "function_call"), "reasoning without its required following item"
            if kind not in ("function_call_output", "function_call", "reasoning"):
                assert not open_ids, f"no output for {open_ids}"
            if kind == "message" and item["role"] == "user":
                turns.append([])
            if kind == "function_call":
                json.loads(item["arguments"])
                open_ids.append(item["call_id"])
                turns[-1].append([item["name"], item["call_id"], None])
            if kind == "function_call_output":
                open_ids.remove(item["call_id"])
                next(e for e in turns[-1] if e[1] == item["call_id"] and e[2] is None)[2] = item["output"]
            before = kind
        assert not open_ids, f"no output for {open_ids}"
        return turns

    def tools(self, body):
        return [tool["name"] for tool in body["tools"]]

    def items(self, text, calls, opaque):
        yield {"type": "reasoning", "id": f"rs_{opaque}", "summary": [], "encrypted_content": opaque}
        if text:
            content = [{"type": "output_text", "text": text, "annotations": []}]
            yield {
                "type": "message",
                "id": f"msg_{opaque}",
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        for call_id, name, arguments in calls:
            yield {
                "type": "function_call",
                "id": f"fc_{call_id}",
                "call_id": call_id,
                "name": name,
                "arguments": json.dumps(arguments),
                "status": "completed",
            }

    def response(self, output):
        return {"id": "resp", "object": "response", "model": "m", "status": "completed", "output": output}

    def whole(self, body, text, calls, opaque):
        return "application/json", json.dumps(self.response([*self.items(text, calls, opaque)])).encode()

    def streamed(self, body, text, calls, opaque):
        output = [*self.items(text, calls, opaque)]
        events = [{"type": "response.created", "response": {**self.response([]), "status": "in_progress"}}]
        for index, item in enumerate(output):
            place = {"output_index": index, "item_id": item["id"]}
            begun = {**item, "content": []} if item["type"] == "message" else {**item, "arguments": ""}
            events.append({"type": "response.output_item.added", "output_index": index, "item": begun})
            if item["type"] == "message":
                for letter in text:
                    events.append({"type": "response.output_text.delta", "content_index": 0, "delta": letter, **place})
            if item["type"] == "function_call":
                for letter in item["arguments"]:
                    events.append({"type": "response.function_call_arguments.delta", "delta": letter, **place})
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        events.append({"type": "response.completed", "response": self.response(output)})
        return "text/event-stream", sse(*({**e, "sequence_number": n} for n, e in enumerate(events)))


class Ollama:
    """Ollama's own API; thinking is plain text, which comes back to where it was thought."""

    provider = "ollama"
    base = ""
    settings = MappingProxyType({"num_ctx": 8192})

    def told(self, body):
        turns = []
        waiting = []
        for message in body["messages"]:
            assert isinstance(message.get("content", ""), str)
            if message["role"] == "user":
                turns.append([])
            if message["role"] != "tool":
                assert not waiting, f"no result for {waiting}"
            for call in message.get("tool_calls") or ():
                assert isinstance(call["function"]["arguments"], dict), "arguments must be an object"
                entry = [call["function"]["name"], call.get("id"), None]
                waiting.append(entry)
                turns[-1].append(entry)
            if message["role"] == "tool":
                entry = waiting.pop(0)
                assert (message["tool_name"], message["tool_call_id"]) == (entry[0], entry[1]), "results out of order"
                entry[2] = message["content"]
        assert not waiting
        return turns

    def tools(self, body):
        return [tool["function"]["name"] for tool in body["tools"]]

    def chunk(self, **rest):
        return {"model": "m", "created_at": "2026-01-01T00:00:00Z", **rest}

    def whole(self, body, text, calls, opaque):
        message = {"role": "assistant", "content": text, "thinking": opaque}
        if calls:
            message["tool_calls"] = [self._call(*call) for call in calls]
        return "application/json", json.dumps(self.chunk(message=message, done=True, done_reason="stop")).encode()

    def streamed(self, body, text, calls, opaque):
        messages = [{"role": "assistant", "content": "", "thinking": opaque}]
        messages += [{"role": "assistant", "content": letter} for letter in text]
        messages += [{"role": "assistant", "content": "", "tool_calls": [self._call(*call)]} for call in calls]
        chunks = [self.chunk(message=message, done=False) for message in messages]
        end = self.chunk(message={"role": "assistant", "content": ""}, done=True, done_reason="stop")
        return "application/x-ndjson", b"".join(json.dumps(c).encode() + b"\n" for c in (*chunks, end))

    def _call(self, call_id, name, arguments):
        return {"id": call_id, "function": {"index": 0, "name": name, "arguments": arguments}}


class Gemini:
    """Gemini 3: signatures on the first call of each step, which must come back; no ids."""

    provider = "gemini"
    base = ""
    settings = MappingProxyType({"api_key": "test-key"})

    def told(self, body):
        contents = body["contents"]
        assert contents[0]["role"] == "user", "contents must start with user"
        assert all(a["role"] != b["role"] or a["role"] == "user" for a, b in itertools.pairwise(contents))
        turns = []
        waiting = []
        for content in contents:
            calls = [part for part in content["parts"] if "functionCall" in part]
            answers = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
            assert len(answers) == len(waiting), "number of function response parts is not that of the calls"
            assert not answers or len(answers) == len(content["parts"]), "function responses beside other parts"
            for entry, answer in zip(waiting, answers, strict=True):
                assert answer["name"] == entry[0]
                assert isinstance(answer["response"], dict)
                entry[2] = json.dumps(answer["response"])
            waiting = []
            if content["role"] == "user" and not answers:
                turns.append([])
            if calls:
                assert calls[0].get("thoughtSignature"), "Function call is missing a thought_signature"
            for call in calls:
                entry = [call["functionCall"]["name"], None, None]
                assert isinstance(call["functionCall"].get("args", {}), dict)
                waiting.append(entry)
                turns[-1].append(entry)
        assert not waiting
        return turns

    def tools(self, body):
        (tool,) = body["tools"]
        return [declaration["name"] for declaration in tool["functionDeclarations"]]

    def parts(self, text, calls, opaque):
        if text:
            yield {"text": text}
        for index, (_, name, arguments) in enumerate(calls):
            part = {"functionCall": {"name": name, "args": arguments}}
            yield {**part, "thoughtSignature": opaque} if index == 0 else part

    def chunk(self, parts, **rest):
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **rest}
        return {"candidates": [candidate], "modelVersion": "gemini-3-test"}

    def whole(self, body, text, calls, opaque):
        answer = self.chunk([*self.parts(text, calls, opaque)], finishReason="STOP")
        return "application/json", json.dumps(answer).encode()

    def streamed(self, body, text, calls, opaque):
        letters = [self.chunk([{"text": letter}]) for letter in text]
        calls = [self.chunk([part]) for part in self.parts("", calls, opaque)]
        return "text/event-stream", sse(*letters, *calls, self.chunk([{"text": ""}], finishReason="STOP"))


class Anthropic:
    """Anthropic's Messages API, with signed thinking; ids are unique in a conversation."""

    provider = "anthropic"
    base = ""
    settings = MappingProxyType({"api_key": "test-key", "max_tokens": 4096})

    def told(self, body):
        turns = []
        waiting = []
        seen = set()
        before = "assistant"
        for message in body["messages"]:
            assert message["role"] != before, "roles must alternate"
            before = message["role"]
            blocks = message["content"]
            assert blocks, "empty content"
            assert all(block["text"].strip() for block in blocks if block["type"] == "text"), "empty text"
            if before == "assistant":
                assert blocks[-1]["type"] != "thinking", "the final block cannot be thinking"
                for call in blocks:
                    if call["type"] != "tool_use":
                        continue
                    assert re.fullmatch("[a-zA-Z0-9_-]+", call["id"]), "tool_use.id"
                    assert call["id"] not in seen, "`tool_use` ids must be unique"
                    assert isinstance(call["input"], dict), "input must be an object"
                    seen.add(call["id"])
                    waiting.append([call["name"], call["id"], None])
                turns[-1].extend(waiting)
                continue
            results = [block for block in blocks if block["type"] == "tool_result"]
            assert blocks[: len(results)] == results, "results come first"
            found = {block["tool_use_id"]: block["content"] for block in results}
            ids = [entry[1] for entry in waiting]
            assert [*found] == ids, f"`tool_use` ids were found without `tool_result` blocks: {ids}"
            for entry in waiting:
                entry[2] = found[entry[1]]
            waiting = []
            if len(results) < len(blocks):
                turns.append([])
        assert not waiting
        return turns

    def tools(self, body):
        return [tool["name"] for tool in body["tools"]]

    def blocks(self, text, calls, opaque):
        yield {"type": "thinking", "thinking": "Hm.", "signature": opaque}
        if text:
            yield {"type": "text", "text": text}
        for call_id, name, arguments in calls:
            yield {"type": "tool_use", "id": f"toolu_{call_id}", "name": name, "input": arguments}

    def message(self, content, **rest):
        usage = {"input_tokens": 10, "output_tokens": 5}
        return {"id": "msg", "type": "message", "role": "assistant", "model": "m", "content": content} | {
            "usage": usage,
            **rest,
        }

    def whole(self, body, text, calls, opaque):
        answer = self.message(
            [*self.blocks(text, calls, opaque)], stop_reason="tool_use" if calls else "end_turn", stop_sequence=None
        )
        return "application/json", json.dumps(answer).encode()

    def streamed(self, body, text, calls, opaque):
        events = [{"type": "message_start", "message": self.message([], stop_reason=None)}, {"type": "ping"}]
        for index, block in enumerate(self.blocks(text, calls, opaque)):
            begun, deltas = self.pieces(block)
            events.append({"type": "content_block_start", "index": index, "content_block": begun})
            events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            events.append({"type": "content_block_stop", "index": index})
        delta = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
        events += [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
        return "text/event-stream", sse(*events)

    def pieces(self, block):
        if block["type"] == "text":
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": letter} for letter in block["text"]]
        if block["type"] == "thinking":
            deltas = [{"type": "thinking_delta", "thinking": letter} for letter in block["thinking"]]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {"type": "thinking", "thinking": "", "signature": ""}, deltas
        written = json.dumps(block["input"])
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": letter} for letter in written]


DIALECTS = {
    "chat": Chat(),
    "responses": Responses(),
    "ollama": Ollama(),
    "gemini": Gemini(),
    "anthropic": Anthropic(),
}


class AgentServer:
    """Plays the model in one dialect.

    Attributes:
        requests: The bodies it was sent.
        given: The opaque data it has given out, in order.
    """

    def __init__(self, name):
        self.name, self.dialect = name, DIALECTS[name]
        self.requests, self.given = [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if self.path == "/api/show":  # what Ollama's adapter asks of a model
                    capable = {"capabilities": ["completion", "tools", "thinking"], "model_info": {}}
                    return self.send(200, "application/json", json.dumps(capable).encode())
                streamed = body.get("stream") or ":streamGenerateContent" in self.path
                try:
                    kind, content = outer.answer(body, streamed)
                except (AssertionError, KeyError, ValueError, IndexError, StopIteration) as error:
                    text = f"{type(error).__name__} {error}"
                    problem = text if outer.name == "ollama" else {"message": text, "code": 400}
                    return self.send(400, "application/json", json.dumps({"error": problem}).encode())
                return self.send(200, kind, content)

            def send(self, status, kind, content):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}{self.dialect.base}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def llm(self):
        """The llms entry for it."""
        return {
            "provider": self.dialect.provider,
            "base_url": self.url,
            "default_model": "gemini-3-test" if self.name == "gemini" else "m",
            "retries": 0,
            **self.dialect.settings,
        }

    def answer(self, body, streamed):
        self.requests.append(body)
        written = json.dumps(body)
        for other in DIALECTS:
            assert other == self.name or f"opaque-{other}-" not in written, f"opaque data of {other}"
        lost = [opaque for opaque in self.given if opaque not in written]
        assert not lost, f"opaque data was not returned: {lost}"
        assert self.dialect.tools(body) == ["get_weather", "calculator"]
        results = self.dialect.told(body)[-1]
        opaque = f"opaque-{self.name}-{len(self.requests)}"
        done = {0: 0, 1: 1, 3: 2}[len(results)]
        if done < len(ROUNDS):
            text, asked = ROUNDS[done]
            # The same ids in every turn, as some servers have it.
            calls = [(f"call_{len(results) + i}", name, arguments) for i, (name, arguments) in enumerate(asked)]
            self.given.append(opaque)
        else:
            text, calls = "Found: " + " | ".join(result for _, _, result in results), []
            if self.name != "gemini":
                self.given.append(opaque)
        return (self.dialect.streamed if streamed else self.dialect.whole)(body, text, calls, opaque)

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
