"""Interleave calls of the server's tools and of the client's through OpenAI's APIs: each history a model gets is valid.

    python benchmarks/openai_interleavings.py --runs 100000 [--seed N]
    python benchmarks/openai_interleavings.py --only 4711        one dialogue again

Each run is a dialogue of one of two tenants, through Chat Completions or Responses, with or without a stream, in the
background, in kept conversations, from whole histories or from a previous response. The model calls tools of both
sides at random, also unreadably, of unknown names, and beside calls that a person must approve. The client brings the
results in any order, not at all, twice, under unknown ids or as another tenant; it asks again, leaves, cancels, and the
server is started anew in between.

Checked at each request to the model: a call has one result, after its answer and in its order; the result is that of
the call; and nothing that belongs to the conversation is missing. Checked at the end: a payment happened once if it was
approved, and never otherwise. The server answers nothing with a status of 500.
"""

import argparse
import asyncio
import collections
import json
import random
import re
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import attrs
from flexchat.assembly import installed_plugins
from flexchat.plugin import hookimpl
from flexchat_sdk import AssistantMessage, ChatResult, ProviderRequestError, ProviderType, TextPart, ToolCall
from flexchat_testing import ScriptedProvider
from flexchat_web.app import create_app
from flexchat_web.page_files import PageFiles
from flexchat_web.serving import Settings

sys.modules.setdefault("openai_interleavings", sys.modules[__name__])  # the configuration names functions of it

TOKENS = {"red-token-0123456789": "red", "blue-token-0123456789": "blue"}
OTHER = {"red": "blue", "blue": "red"}
STATELESS = ("chat", "unstored")
WAYS = (*STATELESS, "chat kept", "previous", "kept", "whole")
"""How a client goes on: with its whole history, in a conversation that it names, or from the previous response."""
MAX_STEPS = 7
REFUSALS = re.compile(
    r"never answered|Not executed|declined|cancel|no tool|Invalid tool arguments|not found|approv|interrupt"
)

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where the database is: nothing here loses power."""

PAID = collections.Counter()


async def add(n: int) -> str:
    return f"added {n}"


async def pay(n: int) -> str:
    PAID[n] += 1
    return f"paid {n}"


def tool_of(name, effect, **more):
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    implementation = {"type": "python", "function": f"openai_interleavings:{name}"}
    entry = {"name": name, "description": name, "effect": effect, "parameters": parameters}
    return {**entry, "implementation": implementation, **more}


TABLES = {
    "llms": {"robot": {"provider": "interleaved", "retries": 0}},
    "responses": [{"llm": "robot", "model": "r1", "tools": {"enabled": True, "max_iterations": 30}}],
    "tools": {"registry": [tool_of("add", "read"), tool_of("pay", "write", approve=True)]},
}
THEIRS = [{"name": name, "parameters": {"type": "object", "properties": {}}} for name in ("look", "see")]
NUMBER = re.compile(r"\d+")


class Model(ScriptedProvider):
    """Answers at random, as the dialogue of its first message has it, and checks what it is sent."""

    def __init__(self, dialogues):
        super().__init__([])
        self._dialogues = dialogues

    def tool_format(self, model):
        return "interleaved"

    async def generate_chat(self, messages, model, options):
        first = next(m.content for m in messages if m.role == "user")
        dialogue = self._dialogues.get(int(NUMBER.search(first)[0]))
        assert dialogue is not None, first
        await asyncio.sleep(0)
        try:
            return dialogue.answer(messages, [tool["function"]["name"] for tool in options.tools or ()])
        except AssertionError as error:
            dialogue.fault = f"{error}\n" + "\n".join(map(shown, messages))
            raise ProviderRequestError("a fault", provider="interleaved") from None


class Plugin:
    """Makes the provider known."""

    def __init__(self, model):
        self._model = model

    @hookimpl
    def flexchat_register_providers(self):
        formats = {"interleaved": lambda _: []}
        yield ProviderType(name="interleaved", config_class=Nothing, create=lambda _: self._model, tool_formats=formats)


@attrs.frozen(kw_only=True)
class Nothing:
    """No settings."""


def number_of(question):
    return int(NUMBER.search(question["question"]["message"])[0])


def shown(message):
    made = [f"{call.name}({call.arguments_text})" for call in getattr(message, "tool_calls", ())]
    return f"    {message.role}: {message.content!r} {' '.join(made)} {getattr(message, 'tool_call_id', '')}"


def check(messages):
    """Assert that each call has its result, after its answer and in its order; return the numbers of the answers."""
    is_open, numbers = [], []
    for message in messages:
        if message.role == "tool":
            assert is_open, "a result without a call"
            call = is_open.pop(0)
            assert call.id == message.tool_call_id, "a result in the place of another"
            number = NUMBER.search(call.arguments_text)[0]
            right = {"look": "seen", "see": "seen", "add": "added", "pay": "paid"}.get(call.name, "nothing")
            fits = message.content in (f"{right} {number}", json.dumps(f"{right} {number}"))
            fits = fits or f'"{right} {number}"' in message.content
            assert fits or REFUSALS.search(message.content), f"a wrong result of {call.name} {number}"
            continue
        assert not is_open, f"{len(is_open)} calls without a result before {message.role}"
        if message.role == "assistant":
            is_open = [*message.tool_calls]
            numbers += map(int, NUMBER.findall(message.content or ""))
            numbers += [int(NUMBER.search(call.arguments_text)[0]) for call in is_open]
    assert not is_open, f"{len(is_open)} calls without a result at the end"
    return numbers


class Dialogue:
    """A client and its model: what it was sent, and what the model must have of it."""

    def __init__(self, number, world):
        self.chance = random.Random(number)
        self.model_chance = random.Random(-number - 1)
        self.number, self.world = number, world
        self.is_kept = world.is_kept
        self.tenant = self.chance.choice([*OTHER])
        self.way = self.chance.choice(WAYS if self.is_kept else STATELESS)
        self.fault, self.log = "", []
        self.numbers = iter(range(number * 1000 + 1, number * 1000 + 1000))
        self.messages, self.expected, self.written = [], [], []
        self.calls, self.answered, self.responses = [], [], []
        self.approved = set()
        self.is_mixed = False
        self.rounds = 0

    @property
    def is_responses(self):
        return self.way in ("unstored", "previous", "kept", "whole")

    @property
    def is_stored(self):
        return self.way not in STATELESS

    @property
    def is_continued(self):
        """Whether the client sends what is new alone."""
        return self.way in ("chat kept", "previous", "kept")

    def answer(self, messages, offered):
        """Write the model's next answer."""
        numbers = check(messages)
        assert [n for n in numbers if n in self.expected] == self.expected, (
            f"the model was sent {numbers}, not {self.expected}"
        )
        assert messages[-1].role in ("user", "tool"), f"ends with {messages[-1].role}"
        number, chance = next(self.numbers), self.model_chance
        self.rounds += 1
        kinds = chance.choices(
            ("add", "look", "see", "pay", "broken", "unknown"),
            (4, 4, 2, 1, 1, 0.5),
            k=chance.choice((0, 1, 1, 2, 3, 5)),
        )
        if self.rounds > 4:
            kinds = []
        parts = [TextPart(f"said {number}")] if not kinds or chance.random() < 0.3 else []
        made = [] if not parts else [number]
        for kind in kinds:
            number = next(self.numbers)
            made.append(number)
            name = {"broken": chance.choice(("look", "add")), "unknown": "nothing"}.get(kind, kind)
            if kind == "broken":
                parts.append(ToolCall.from_text(name, f"{{{number}"))
            else:
                parts.append(ToolCall.from_object(name, {"n": number}))
        self.written += made
        reason = "tool_calls" if kinds else "stop"
        return ChatResult(message=AssistantMessage(parts=tuple(parts)), finish_reason=reason)

    async def run(self):
        """Hold the dialogue."""
        self.add_message()
        for _ in range(MAX_STEPS):
            self.rounds = 0
            outcome = await self.ask()
            assert not self.fault, self.fault
            if outcome != "done":
                return
            await self.maybe_disturb()
            if self.calls and self.chance.random() < 0.85:
                await self.bring_results()
            elif self.chance.random() < 0.85:
                self.add_message()
            else:
                return

    def add_message(self):
        self.calls = []
        text = f"dialogue {self.number} goes on"
        self.fresh = [{"role": "user", "content": text}]

    async def bring_results(self):
        """Answer the calls of the client, in any order; some may be missing."""
        chosen = [call for call in self.calls if self.chance.random() < 0.9] or self.calls[:1]
        self.chance.shuffle(chosen)
        self.fresh = [self.result(id, number) for id, number in chosen]
        self.answered += [id for id, _ in chosen]
        for wrong in self.wrong_results(chosen):
            status, data = await self.send(self.body(wrong))
            assert 400 <= status < 500, f"a wrong result was answered with {status}: {wrong} {str(data)[:300]}"
        if (self.is_mixed or self.is_continued) and self.chance.random() < 0.1:
            status, data = await self.send(self.body(self.fresh), tenant=OTHER[self.tenant])
            assert status in (400, 404), f"another tenant's results were answered with {status}: {str(data)[:300]}"
        self.calls = []

    def wrong_results(self, chosen):
        id, number = chosen[0]
        turn = re.fullmatch(r"call_([0-9a-f]{32})_\d+", id)
        unknown = ["call_of_nothing", f"call_{'0' * 32}_0", *([f"call_{turn[1]}_99"] if turn else [])]
        for stray in unknown:
            if self.chance.random() < 0.1:
                yield [*self.fresh, self.result(stray, number)]
        old = [id for id in self.answered if all(id != known for known, _ in self.calls)]
        if self.is_continued and old and self.chance.random() < 0.2:
            yield [self.result(self.chance.choice(old), 0)]
        if self.chance.random() < 0.1:
            yield [*self.fresh, self.result(id, number)]

    def result(self, id, number):
        text = f"seen {number}"
        if self.is_responses:
            parts = [{"type": "input_text", "text": text}] if self.chance.random() < 0.2 else text
            return {"type": "function_call_output", "call_id": id, "output": parts}
        parts = [{"type": "text", "text": text}] if self.chance.random() < 0.2 else text
        return {"role": "tool", "tool_call_id": id, "content": parts}

    def body(self, fresh, **more):
        names = self.chance.choice(((), ("look",), ("look", "see"), ("look", "see"), ("look", "see")))
        tools = [tool for tool in THEIRS if tool["name"] in names]
        body = {"model": "flexchat", "stream": self.chance.random() < 0.5, **more}
        if self.is_responses:
            body["tools"] = [{"type": "function", **tool} for tool in tools]
            body["input"] = fresh if self.way in ("previous", "kept") else [*self.messages, *fresh]
            if self.chance.random() < 0.1:
                body["instructions"] = "Be brief."
            if self.way == "unstored":
                body["store"] = False
            if self.way == "previous" and self.responses:
                body["previous_response_id"] = self.responses[-1]
            if self.way == "kept":
                body["conversation"] = f"c{self.number}"
            if self.is_stored and not self.is_suspended and self.chance.random() < 0.2:
                body |= {"background": True, "stream": False}
            return body
        body["tools"] = [{"type": "function", "function": tool} for tool in tools]
        body["messages"] = fresh if self.way == "chat kept" else [*self.messages, *fresh]
        if self.way == "chat kept":
            body["conversation"] = f"c{self.number}"
        return body

    async def send(self, body, *, tenant=None, key=None, leave=None, retries=0):
        path = "/v1/responses" if self.is_responses else "/v1/chat/completions"
        status, data = await self.world.request("POST", path, body, tenant or self.tenant, key, leave, retries)
        self.log.append(f"{path} {json.dumps(body)[:1500]} -> {status} {json.dumps(data)[:1500]}")
        assert not self.fault, self.fault
        assert status != 500, f"500: {data}"
        return status, data

    async def ask(self):
        """Send what is fresh; return "done" if the dialogue can go on."""
        body, key = self.body(self.fresh), f"{self.number}-{len(self.log)}"
        before = len(self.written)
        how = self.chance.random()
        if how < 0.08 and body["stream"]:
            await self.send(body, key=key, leave=self.chance.randrange(6))
        elif how < 0.12:
            await asyncio.gather(self.send(body, key=key), self.send(body, key=key))
        status, data = await self.send(body, key=key)
        if self.has_lost:
            assert status == 400, f"what was held in memory is found after a restart: {status}"
            return "lost"
        if self.fault:
            return "fault"
        assert status == 200, f"{status}: {str(data)[:500]}"
        data = await self.settle(body, data, key)
        if data is None:
            self.after_lost_turn()
            return "done" if self.way != "previous" or self.responses else "lost"
        if how > 0.95:
            status, again = await self.send(body, key=key)
            assert (status, again["id"]) == (200, data["id"]) or not self.is_responses, "a repetition is another answer"
        self.take(data, self.written[before:])
        return "done"

    has_lost = has_held = is_suspended = False

    async def settle(self, body, data, key):
        """Return the response once it has ended; None if it was cancelled or replaced."""
        for _ in range(5000):
            status = data["status"] if self.is_responses else data["flexchat"]["status"]
            if status in ("queued", "in_progress"):
                if (chance := self.chance.random()) < 0.01:
                    await self.restart()
                elif chance < 0.03:
                    _, data = await self.world.request(
                        "POST", f"/v1/responses/{data['id']}/cancel", None, self.tenant, None
                    )
                    assert "status" in data, f"cancelled: {data}"
                    if data["status"] == "cancelled":
                        return None
                await asyncio.sleep(0.002)
                code, data = await self.world.request("GET", f"/v1/responses/{data['id']}", None, self.tenant, None)
                assert code == 200, f"a response in the background: {code} {data}"
                if data["status"] == "in_progress" and await self.questions():
                    status = "suspended"
                else:
                    continue
            if status in ("incomplete", "suspended"):
                pending = await self.questions()
                if not pending:
                    assert self.is_stored, f"suspended without a question: {data}"
                    data = await self.read(body, data, key)
                    continue
                chance = self.chance.random()
                if chance < 0.1 and self.is_continued:
                    self.is_suspended = True
                    return None  # a new message ends it, but not one in the background, which waits for it
                if chance < 0.15:
                    await self.restart()
                for question in pending:
                    action = self.chance.choice(("accept", "accept", "decline"))
                    number = number_of(question)
                    code, reply = await self.world.request(
                        "POST", f"/api/questions/{question['id']}/reply", {"action": action}, self.tenant, None
                    )
                    if code == 200 and action == "accept":
                        self.approved.add(number)
                    assert code in (200, 404), f"a reply: {code} {reply}"
                data = await self.read(body, data, key)
                continue
            if status in ("failed", "cancelled"):
                assert not self.fault, self.fault
                return None
            return data
        raise AssertionError(f"it does not end: {str(data)[:500]}")

    async def read(self, body, data, key):
        await asyncio.sleep(0.002)
        if self.is_responses:
            code, data = await self.world.request("GET", f"/v1/responses/{data['id']}", None, self.tenant, None)
        else:
            code, data = await self.send(body, key=key)
        assert code == 200, f"read again: {code} {str(data)[:500]}"
        return data

    async def questions(self):
        _, data = await self.world.request("GET", "/api/questions", None, self.tenant, None)
        return [each for each in data["questions"] if self.number == number_of(each) // 1000]

    def after_lost_turn(self):
        """The turn ended without an answer: the client goes on with a message."""
        self.calls = []

    def take(self, data, made):
        """Keep the answer as a client does."""
        self.is_suspended = False
        calls, ours = [], data.get("flexchat", {}).get("tool_calls")
        if self.is_responses:
            self.responses.append(data["id"])
            calls = [(item["call_id"], item["arguments"]) for item in data["output"] if item["type"] == "function_call"]
            self.messages += [*self.fresh, *data["output"]]
            text = "".join(
                part["text"] for item in data["output"] if item["type"] == "message" for part in item["content"]
            )
        else:
            message = data["choices"][0]["message"]
            calls = [(call["id"], call["function"]["arguments"]) for call in message.get("tool_calls") or ()]
            self.messages += [*self.fresh, {**message, "refusal": None}]
            text = message["content"] or ""
            assert (data["choices"][0]["finish_reason"] == "tool_calls") == bool(calls), data["choices"][0]
        for number in self.approved.intersection(made):
            assert PAID[number] == 1, f"approved, and paid {PAID[number]} times: {number}"
        self.calls = [(id, int(NUMBER.search(arguments)[0])) for id, arguments in calls]
        assert all(number in made for _, number in self.calls), f"calls {self.calls} of another answer than {made}"
        assert len({id for id, _ in self.calls}) == len(self.calls), "two calls with one id"
        self.is_mixed = any(re.fullmatch(r"call_[0-9a-f]{32}_\d+", id) for id, _ in self.calls)
        self.has_held = self.has_held or self.is_mixed
        if ours is not None:
            assert bool(calls and ours) == self.is_mixed, f"ids of a mixed answer: {calls}"
        self.shown = [id for id, _ in self.calls]
        if self.is_continued or self.is_mixed:
            self.expected += made
        else:
            self.expected += [
                n for n in made if n in map(int, NUMBER.findall(text)) or n in dict(map(reversed, self.calls))
            ]

    async def maybe_disturb(self):
        chance = self.chance.random()
        if chance < 0.02:
            await self.restart()
        elif chance < 0.1 and self.way == "previous" and len(self.responses) > 1:
            body = {**self.body(self.fresh), "input": "branch", "previous_response_id": self.responses[-2]}
            status, data = await self.send(body)
            assert status == 400, f"a branch was answered with {status}: {str(data)[:300]}"
        elif chance < 0.15 and self.responses and self.is_stored:
            status, data = await self.world.request(
                "GET", f"/v1/responses/{self.responses[-1]}", None, self.tenant, None
            )
            calls = [item["call_id"] for item in data["output"] if item["type"] == "function_call"]
            assert (status, calls) == (200, self.shown), f"shown otherwise: {status} {calls} {self.shown}"

    async def restart(self):
        self.has_lost = self.has_lost or (self.has_held and not self.is_kept)
        self.log.append("restart")
        await self.world.restart()


class World:
    """The server, started anew again and again, on one store or without one."""

    def __init__(self, folder, *, is_kept):
        self.dialogues, self.is_kept = {}, is_kept
        self._plugins = installed_plugins()
        self._plugins.register(Plugin(Model(self.dialogues)), "interleaved")
        kept = {"conversations": {"path": str(folder / "chat.db")}} if is_kept else {}
        self._tables = {**TABLES, **kept}
        self.requests = self.restarts = 0
        self._page = PageFiles(())
        self._start()

    def _start(self):
        with mock.patch(
            "flexchat_web.app.PageFiles", return_value=self._page
        ):  # reading the page takes most of a start
            self._app = create_app(self._tables, plugins=self._plugins, settings=Settings(tokens=TOKENS))

    async def restart(self):
        self.restarts += 1
        await self._app.aclose()
        self._start()

    async def aclose(self):
        await self._app.aclose()

    async def request(self, method, path, body, tenant, key, leave=None, retries=0):
        """Send a request; return its status and its answer, put together from the events if it is a stream.

        leave: after how many pieces of the answer the client leaves.
        """
        self.requests += 1
        token = next(token for token, name in TOKENS.items() if name == tenant)
        headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {token}".encode())]
        content = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            headers += [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
        if key:
            headers.append((b"idempotency-key", key.encode()))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
        }
        incoming = [{"type": "http.request", "body": content, "more_body": False}]
        head, pieces, left = {}, [], asyncio.Event()

        async def receive():
            if incoming:
                return incoming.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            head.update(message)
            pieces.append(message.get("body", b""))
            if leave is not None and len(pieces) > leave:
                left.set()

        try:
            await self._app(scope, receive, send)
        finally:
            left.set()
        text = b"".join(pieces).decode()
        if leave is not None:
            return 0, {}
        is_stream = any(
            value.startswith(b"text/event-stream") for name, value in head["headers"] if name == b"content-type"
        )
        return head["status"], whole(text) if is_stream else json.loads(text or "null")


def whole(text):
    """Return a stream's answer."""
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    if events and "response" in events[-1]:
        return events[-1]["response"]
    message, reason, extra = {"role": "assistant", "content": None}, None, {}
    for event in events:
        if "error" in event:
            return event
        extra |= {name: event[name] for name in ("id", "flexchat") if name in event}
        for choice in event["choices"]:
            delta, reason = choice["delta"], choice["finish_reason"] or reason
            if delta.get("content"):
                message["content"] = (message["content"] or "") + delta["content"]
            for call in delta.get("tool_calls", ()):
                message.setdefault("tool_calls", []).append({key: call[key] for key in ("id", "type", "function")})
    return {**extra, "choices": [{"message": message, "finish_reason": reason}]}


async def hold(world, number):
    """Hold one dialogue; return the fault that it found, if it found one."""
    dialogue = world.dialogues[number] = Dialogue(number, world)
    try:
        await dialogue.run()
        assert not dialogue.fault, dialogue.fault
        paid = {n: count for n, count in PAID.items() if n // 1000 == number}
        assert all(count == 1 and n in dialogue.approved for n, count in paid.items()), (
            f"paid {paid}, approved {dialogue.approved}"
        )
    except Exception as error:
        lines = [f"dialogue {number} ({dialogue.way}, {'kept' if world.is_kept else 'memory'}): {type(error).__name__}"]
        return "\n".join([*lines, str(error), dialogue.fault, *dialogue.log])
    finally:
        for n in [n for n in PAID if n // 1000 == number]:
            del PAID[n]
    return ""


async def run(numbers, *, is_kept, folder):
    """Hold dialogues one after another, and report their faults and numbers; return how many found a fault."""
    world, faults, ways, started = World(folder, is_kept=is_kept), 0, collections.Counter(), time.monotonic()
    for index, number in enumerate(numbers, 1):
        if fault := await asyncio.wait_for(hold(world, number), 600):
            faults += 1
            print(fault, flush=True)
        ways[world.dialogues.pop(number).way] += 1
        if index % 1000 == 0 or index == len(numbers):
            count = f"{world.requests} requests, {world.restarts} restarts, {faults} faults"
            store, rate = "sqlite" if is_kept else "memory", index / (time.monotonic() - started)
            print(f"{index} dialogues to {number}, {store}: {count}, {rate:.0f}/s, {dict(ways)}", flush=True)
    await world.aclose()
    return faults


def main():
    """Hold the dialogues; exit with 1 if one found a fault."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the dialogues have the numbers after this one")
    parser.add_argument("--only", type=int, help="hold one dialogue")
    given = parser.parse_args()
    numbers = [given.only] if given.only is not None else range(given.seed + 1, given.seed + given.runs + 1)
    faults = 0
    for at in range(0, len(numbers), 2000):  # each part with a new store
        for is_kept in (True, False):
            part = [number for number in numbers[at : at + 2000] if bool(number % 10) is is_kept]
            with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
                faults += asyncio.run(run(part, is_kept=is_kept, folder=Path(folder))) if part else 0
    print(f"{len(numbers)} dialogues, {faults} faults")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
