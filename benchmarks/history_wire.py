"""Random conversations under [history], sent in five dialects: every body must keep its service's rules.

    python benchmarks/history_wire.py --histories 100000 [--seed 0]

Each conversation has parallel calls, errors, refusals, media, cancelled turns and pinned messages. It is limited by a
number of tokens or turns, sliced by a policy, or sliced by a request hook. Checked in each body: calls and results in
pairs, the first role, nothing empty, the system prompt, and what is pinned (not after a hook). A hook's slice without
a message of the user is refused before sending, and counted.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import random
import time
from typing import Any

import attrs
import httpx
from flexchat import (
    AssistantMessage,
    FlexChat,
    MediaPart,
    Message,
    RequestRefusedError,
    ToolCall,
    ToolMessage,
    UserMessage,
    tool,
)
from flexchat.plugin import hookimpl
from flexchat_anthropic.config import AnthropicConfig
from flexchat_anthropic.provider import AnthropicProvider
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.provider import GeminiProvider
from flexchat_ollama.config import OllamaConfig
from flexchat_ollama.provider import OllamaProvider
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider
from flexchat_sdk import RefusalPart, TextPart

MODELS = {
    "anthropic": "claude-opus-4-5",
    "gemini": "gemini-2.5-flash",
    "ollama": "m",
    "openai": "gpt-4o",
    "responses": "gpt-5.2",
}
ANSWERS: dict[str, Any] = {
    "anthropic": {
        **{"id": "i", "type": "message", "role": "assistant", "model": "x", "stop_reason": "end_turn"},
        **{"content": [{"type": "text", "text": "Ok."}], "usage": {"input_tokens": 1, "output_tokens": 1}},
    },
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "Ok."}]}, "finishReason": "STOP"}]},
    "ollama": {"message": {"role": "assistant", "content": "Ok."}, "done": True, "done_reason": "stop"},
    "openai": {"choices": [{"message": {"role": "assistant", "content": "Ok."}, "finish_reason": "stop"}]},
    "responses": {
        "status": "completed",
        "output": [
            {
                **{"type": "message", "id": "msg_1", "role": "assistant"},
                "content": [{"type": "output_text", "text": "Ok."}],
            }
        ],
    },
}
PICTURE = MediaPart(
    kind="image", mime_type="image/png", data=b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x0a\0\0\0\x0a" + bytes(76)
)
LIMITS: list[dict[str, Any]] = [
    {"max_tokens": 1_500, "keep_turns": 0},
    {"max_tokens": 4_000, "keep_turns": 2, "compact": "drop"},
    {"max_tokens": 8_000, "pin": ["fact"]},
    {"max_tokens": 90_000, "keep_last": 3, "pin": ["fact"]},
]
PROMPT = "Prompt 4711."


@tool(effect="read")
def look(at: int) -> str:
    """Look."""
    return "x"


@tool(effect="read")
def fact(at: int) -> str:
    """State a fact."""
    return "x"


def conversation(rng: random.Random) -> list[Message]:
    """Make a random history."""
    messages: list[Message] = []
    for number in range(rng.randint(0, 14)):
        media = (PICTURE,) if rng.random() < 0.2 else ()
        pinned = rng.random() < 0.15
        messages.append(UserMessage(f"message-{number} " + "q" * rng.choice([5, 50, 900]), media=media, pinned=pinned))
        for _ in range(rng.choice([0, 0, 1, 2])):
            calls = [
                ToolCall(name=rng.choice(["look", "look", "fact"]), arguments={"at": rng.randint(0, 2)})
                for _ in range(rng.randint(1, 3))
            ]
            messages.append(AssistantMessage((*([TextPart("Let me see.")] if rng.random() < 0.3 else []), *calls)))
            messages += [
                ToolMessage(
                    tool_call_id=call.id,
                    name=call.name,
                    content=f"{call.id} " + rng.choice(["", "x" * 500, "é" * 1_500]),
                    is_error=rng.random() < 0.2,
                    media=(PICTURE,) if rng.random() < 0.1 else (),
                )
                for call in calls
            ]
        match rng.random():
            case x if x < 0.1:
                messages.append(AssistantMessage((RefusalPart("No."),)))
            case x if x > 0.2:  # the others were cancelled
                messages.append(AssistantMessage("w" * rng.randint(1, 600)))
    return messages


class Slices:
    """Random stretches of a list: a policy, and a request hook."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def __call__(self, messages: list[Message]) -> list[Message]:
        """Return a stretch that is not empty, unless the list is."""
        first = self._rng.randrange(len(messages)) if messages else 0
        return messages[first : self._rng.randint(first + 1, len(messages))] if messages else []

    @hookimpl
    def flexchat_before_model_request(self, request: Any) -> Any:
        """Slice the whole conversation; the last message stays in half of the cases."""
        messages = (
            self([*request.messages]) if self._rng.random() < 0.5 else request.messages[-self._rng.randint(1, 9) :]
        )
        return attrs.evolve(request, messages=tuple(messages))


def provider(name: str, bodies: list[Any]) -> Any:
    """Return a service's adapter that answers everything, and keeps the bodies."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/show"):
            return httpx.Response(200, json={"capabilities": ["completion", "vision", "tools"]})
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json=ANSWERS[name])

    transport = httpx.MockTransport(answer)
    match name:
        case "anthropic":
            return AnthropicProvider(AnthropicConfig(api_key="k", max_tokens=1000), transport=transport)
        case "gemini":
            return GeminiProvider(GeminiConfig(api_key="k"), transport=transport)
        case "ollama":
            return OllamaProvider(OllamaConfig(media_in_results=True), transport=transport)
    return OpenAIProvider(OpenAIConfig(api_key="k"), transport=transport)


def fault(name: str, body: Any) -> str | None:
    """Return the rule of the service that a body breaks."""
    match name:
        case "anthropic":
            return _fault_of_blocks(body["messages"])
        case "gemini":
            return _fault_of_contents(body["contents"])
        case "responses":
            return _fault_of_items(body["input"])
    return _fault_of_messages(body["messages"])


def _fault_of_messages(messages: Any) -> str | None:
    """Chat Completions and Ollama: results right after their calls, by id or in number."""
    waiting: list[str] = []
    for each in messages:
        if each["role"] == "tool":
            id = each.get("tool_call_id", "")
            if not waiting or (id and id not in waiting):
                return "a result without its call"
            waiting.remove(id if id in waiting else waiting[0])
            continue
        if waiting:
            return "a call without its result"
        waiting = [call.get("id") or str(at) for at, call in enumerate(each.get("tool_calls") or ())]
        if not each.get("content") and not waiting and not each.get("refusal") and not each.get("images"):
            return f"an empty message of {each['role']}"
    return "a call without its result" if waiting else None


def _fault_of_items(items: Any) -> str | None:
    calls = [each["call_id"] for each in items if each.get("type") == "function_call"]
    results = [each["call_id"] for each in items if each.get("type") == "function_call_output"]
    if sorted(calls) != sorted(results) or len(set(calls)) != len(calls):
        return "calls and results do not pair"
    place = {each["call_id"]: at for at, each in enumerate(items) if each.get("type") == "function_call"}
    early = any(
        each.get("type") == "function_call_output" and place[each["call_id"]] > at for at, each in enumerate(items)
    )
    empty = any(each.get("role") and not each.get("content") for each in items)
    return "a result before its call" if early else "an empty message" if empty else None


def _fault_of_blocks(messages: Any) -> str | None:
    if messages[0]["role"] != "user":
        return "the first role is not user"
    waiting: list[str] = []
    before = ""
    for each in messages:
        content = each["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks or any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            return "empty content"
        if each["role"] == before:
            return "two messages of one role"
        before = each["role"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(waiting):
            return "calls and results do not pair"
        if [block["type"] for block in blocks[: len(results)]] != ["tool_result"] * len(results):
            return "results do not come first"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
    return "a call without its result" if waiting else None


def _fault_of_contents(contents: Any) -> str | None:
    if contents[0]["role"] != "user":
        return "the first role is not user"
    waiting = 0
    for each in contents:
        if not each["parts"]:
            return "empty parts"
        results = sum("functionResponse" in part for part in each["parts"])
        if results != waiting:
            return "calls and results do not pair"
        waiting = sum("functionCall" in part for part in each["parts"])
    return "a call without its result" if waiting else None


async def run(count: int, seed: int) -> dict[str, int]:
    """Send random conversations; return how often each outcome was seen."""
    counts: collections.Counter[str] = collections.Counter()
    rng = random.Random(seed)
    slices = Slices(rng)
    bodies: list[Any] = []
    chats: dict[tuple[str, int, str], FlexChat] = {}
    for name, model in MODELS.items():
        rule = {"llm": "it", "model": model, "prompt": PROMPT, "tools": {"enabled": True}}
        for at, limits in enumerate(LIMITS):
            config = {"llms": {"it": {"provider": "scripted"}}, "responses": [rule], "history": limits}
            for how in ("plan", "policy", "hook"):
                rest: dict[str, Any] = {"history_policy": slices} if how == "policy" else {}
                rest |= {"hooks": [slices]} if how == "hook" else {}
                chats[name, at, how] = FlexChat.from_config(
                    config, providers={"it": provider(name, bodies)}, tools=[look, fact], **rest
                )
    for _ in range(count):
        history, at, how = conversation(rng), rng.randrange(len(LIMITS)), rng.choice(["plan", "plan", "policy", "hook"])
        before = repr(history)
        for name in MODELS:
            bodies.clear()
            try:
                await chats[name, at, how].respond("The question.", history=history)
            except RequestRefusedError:
                counts[f"{how}: refused before sending"] += 1
                continue
            (body,) = bodies
            text = json.dumps(body, ensure_ascii=False)
            counts[f"{how}: sent"] += 1
            broken = fault(name, body)
            if broken:
                counts[f"INVALID {name}, {how}: {broken}"] += 1
            if PROMPT not in text:
                counts[f"NO PROMPT {name}, {how}"] += 1
            if how != "hook":
                missing = any(content not in text for content in _pinned(history, LIMITS[at]))
                counts[f"NOT PINNED {name}, {how}"] += missing
        counts["ORIGINAL CHANGED"] += repr(history) != before
    for chat in chats.values():
        await chat.aclose()
    return {name: times for name, times in sorted(counts.items()) if times}


def _pinned(history: list[Message], limits: dict[str, Any]) -> list[str]:
    """Return the texts that must be sent, up to their first blank."""
    users = [each.content.split()[0] + " " for each in history if isinstance(each, UserMessage) and each.pinned]
    names = limits.get("pin", ())
    results = [each.content.split()[0] for each in history if isinstance(each, ToolMessage) and each.name in names]
    return ["The question.", *users, *(json.dumps(result, ensure_ascii=False)[1:-1] for result in results)]


def main() -> None:
    """Run, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    started = time.perf_counter()
    counts = asyncio.run(run(asked.histories, asked.seed))
    for name, times in counts.items():
        print(f"{times:>9,}  {name}")
    print(f"{asked.histories:,} conversations × {len(MODELS)} dialects in {time.perf_counter() - started:.0f} s")
    raise SystemExit(any(name.isupper() or name.split()[0].isupper() for name in counts))


if __name__ == "__main__":
    main()
