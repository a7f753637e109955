"""Plays a scene through FlexChat's public surface and writes down what can be seen of it, in four channels."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import flexchat_mock.plugin
import flexchat_sqlite.plugin
import flexchat_testing.plugin
from flexchat import ChatOptions, ConfigError, FlexChat, FlexChatError
from flexchat.plugin import ChatResult
from flexchat.plugin.host import PluginHost
from flexchat_sdk import ProviderRequestError, events_of
from flexchat_testing import says

from . import names

CHANNELS = ("requests", "hooks", "events", "outcome")

HANG = object()
"""As a reply, or the last piece of one: the model says nothing more."""


class Model:
    """A model that says what its scene tells it, and cannot stream.

    A reply is a text, a ChatResult, an exception, HANG, anything else that is handed over as it is, or a list of
    the events of a stream, behind which an exception or HANG may stand.
    """

    def __init__(self, *replies: Any, name: str = "bot") -> None:
        self.name = name
        self.replies = list(replies)
        self.stage = Stage()

    def tool_format(self, model: str) -> str:
        """Return the format of FlexChat's own doubles."""
        return "scripted"

    async def generate_chat(self, messages: Sequence[Any], model: str, options: ChatOptions) -> Any:
        """Return the next reply."""
        self.stage.asked(self.name, "generate", messages, model, options)
        reply = await self._next(model)
        if isinstance(reply, list):
            return await self._whole(reply)
        return reply

    async def _next(self, model: str) -> Any:
        if not self.replies:
            raise ProviderRequestError("the script has no further reply", provider=self.name, model=model)
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        if reply is HANG:
            await self.stage.hang()
        if isinstance(reply, str):
            reply = says(reply)
        if isinstance(reply, ChatResult):
            self.stage.know(reply)
        return reply

    async def _whole(self, pieces: list[Any]) -> Any:
        last = pieces[-1]
        if isinstance(last, BaseException):
            raise last
        if last is HANG:
            await self.stage.hang()
        return last.result

    async def aclose(self) -> None:
        """Hold nothing."""


class Streaming(Model):
    """The same, but it can stream."""

    async def stream_chat(self, messages: Sequence[Any], model: str, options: ChatOptions) -> AsyncGenerator[Any, None]:
        """Yield the next reply word by word."""
        self.stage.asked(self.name, "stream", messages, model, options)
        reply = await self._next(model)
        for piece in events_of(reply) if isinstance(reply, ChatResult) else reply:
            if isinstance(piece, BaseException):
                for _ in range(5):  # the reader takes the pieces before it
                    await asyncio.sleep(0)
                raise piece
            if piece is HANG:
                await self.stage.hang()
            yield piece


class Stage:
    """What one play of a scene leaves: the requests, and where it stands."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.ways: list[str] = []
        self.calls: dict[str, str] = {}
        self.waits = asyncio.Event()
        self._earlier: dict[str, list[str]] = {}

    def asked(self, llm: str, way: str, messages: Sequence[Any], model: str, options: ChatOptions) -> None:
        """Write down a request; of its messages, those that the LLM has not been shown in its last one."""
        self.ways.append(f"{llm}: {way}")
        lines = [names.of_message(message) for message in messages]
        earlier = self._earlier.get(llm, [])
        same = next((n for n, (a, b) in enumerate(zip(earlier, lines, strict=False)) if a != b), len(earlier))
        same = min(same, len(lines))
        self._earlier[llm] = lines
        shown = [f"({same} as before)", *lines[same:]] if same else lines
        self.requests.append({"llm": llm, "model": model, "messages": shown, **_of_options(options)})

    def know(self, result: ChatResult) -> None:
        """Give the answer's calls the names they have in the trace: in the order in which they were written."""
        for call in result.tool_calls:
            self.calls.setdefault(call.id, f"call-{len(self.calls) + 1}")

    async def hang(self) -> None:
        """Say that a point is reached behind which nothing comes, and wait for the end."""
        self.waits.set()
        await asyncio.Event().wait()


@attrs.define(kw_only=True)
class Scene:
    """One message, and everything that answers it.

    Attributes:
        models: What answers: the replies of the LLM "bot", or several LLMs by their names.
        rule: Of the one response rule there is; or `tables` say "responses".
        only_rule: Answers in place of those of the config; need not fit.
        asked: Keywords of respond.
        gates: Plugins beside the recorder.
        cancelled: Whether the turn is cancelled when something hangs.
        close_after: How many events are read before the stream is closed; None for all.
        only_streamed: Whether it makes no sense for a turn that is answered whole.
        kept: Id of the conversation whose turns are shown at the end.
        before: Messages that are answered, unrecorded, before this one.
    """

    models: Mapping[str, Model] | list[Any]
    message: Any = "Hello?"
    tools: Sequence[Any] = ()
    rule: Mapping[str, Any] = attrs.field(factory=dict)
    only_rule: Any = None
    tables: Mapping[str, Any] = attrs.field(factory=dict)
    asked: Mapping[str, Any] = attrs.field(factory=dict)
    gates: Sequence[Any] = ()
    stage: Stage = attrs.field(factory=Stage)
    cancelled: bool = False
    close_after: int | None = None
    only_streamed: bool = False
    kept: str | None = None
    before: int = 0

    def chat(self, recorder: names.Recorder) -> FlexChat:
        """Open the scene's chat."""
        models = self.models if isinstance(self.models, Mapping) else {"bot": Streaming(*self.models)}
        for name, model in models.items():
            model.name, model.stage = name, self.stage
        plugins = PluginHost()
        plugins.register(flexchat_sqlite.plugin, "sqlite")
        plugins.register(flexchat_mock.plugin, "mock")
        plugins.register(flexchat_testing.plugin, "testing")  # the kind of provider that a config calls "scripted"
        for number, gate in enumerate(self.gates):
            plugins.register(gate, f"gate{number}")
        plugins.register(recorder, "recorder")
        rule = {"llm": next(iter(models)), "model": "m", **({"tools": {"enabled": True}} if self.tools else {})}
        config = {
            "llms": {name: {"provider": "scripted", "default_model": f"{name}-default"} for name in models},
            "responses": [{**rule, **self.rule}],
            **self.tables,
        }
        return FlexChat.from_config(config, tools=self.tools, providers=models, plugins=plugins)


Play = Callable[[], Scene]

GROUPS: dict[str, dict[str, Play]] = {}
"""The scenes by the module they stand in, which is also the name of their golden file."""


def scene(play: Play) -> Play:
    """Make a function a scene, under its own name. It is called anew for each play."""
    GROUPS.setdefault(play.__module__.rpartition(".")[2], {})[play.__name__] = play
    return play


async def record(play: Play, *, streamed: bool) -> dict[str, Any]:
    """Play a scene and return its trace."""
    scene, recorder, events = play(), names.Recorder(), []
    try:
        async with scene.chat(recorder) as opened:
            chat = opened if scene.only_rule is None else opened.with_rule(scene.only_rule)
            outcome = await _outcome(scene, chat, recorder, events, streamed)
    except ConfigError as error:
        outcome = {"error": type(error).__name__, "text": str(error)}
    ids = {turn for _, turn, _ in recorder.told}
    assert len(ids) <= 1, f"the hooks of one turn name several: {ids}"
    trace = {
        "requests": scene.stage.requests,
        "hooks": _told(recorder),
        "events": events,
        "ways": scene.stage.ways,
        "outcome": outcome,
    }
    return _normal(trace if scene.close_after is None else _effects(trace), scene.stage.calls)


def _effects(trace: dict[str, Any]) -> dict[str, Any]:
    """Return what is shown of a turn whose stream is closed."""
    return {
        "hooks": [told for told in trace["hooks"] if told[0] in names.EFFECTS],
        "events": trace["events"][-1:],
        "ways": trace["ways"],
        "outcome": {**trace["outcome"], "kept": [kept["status"] for kept in trace["outcome"].get("kept", ())]},
    }


def _told(recorder: names.Recorder) -> list[Any]:
    """Return the hooks without the turn's id; phases that follow each other stand in one line."""
    told: list[Any] = []
    for word, _, shown in recorder.told:
        if word == "phase finished" and told and told[-1][0] == word:
            told[-1].append(shown)
        else:
            told.append([word, shown])
    return told


async def _read(stream: AsyncGenerator[Any, None], events: list[Any], close_after: int | None) -> Any:
    """Read a stream into events; return its turn, or None if it is closed before."""
    last = None
    async with contextlib.aclosing(stream):
        while close_after is None or len(events) < close_after:
            last = await anext(stream, None)
            if last is None:
                return None
            kind = type(last).__name__
            if kind not in names.IGNORED_EVENTS:
                word, shown = names.EVENTS[kind]
                events.append([word, shown(last)])
            if hasattr(last, "turn"):
                events[-1].pop()  # the outcome shows it
                return last.turn
    return None


async def _outcome(
    scene: Scene, chat: FlexChat, recorder: names.Recorder, events: list[Any], streamed: bool
) -> dict[str, Any]:
    for _ in range(scene.before):
        with contextlib.suppress(FlexChatError):
            await chat.respond(scene.message, **scene.asked)
    recorder.told.clear()

    async def turn() -> Any:
        if not streamed:
            return await chat.respond(scene.message, **scene.asked)
        return await _read(chat.stream(scene.message, **scene.asked), events, scene.close_after)

    task = asyncio.ensure_future(_result(turn))
    if scene.cancelled:
        await asyncio.wait({task, asyncio.ensure_future(scene.stage.waits.wait())}, return_when="FIRST_COMPLETED")
        task.cancel()
    outcome = await asyncio.wait_for(task, 10)
    if scene.kept:
        with contextlib.suppress(FlexChatError):
            outcome["kept"] = [names.of_kept(turn) for turn in await chat.conversations.turns(scene.kept)]
    return outcome


async def _result(turn: Callable[[], Any]) -> dict[str, Any]:
    try:
        done = await turn()
    except (Exception, asyncio.CancelledError) as error:
        partial = getattr(error, "turn", None)
        shown = {"error": type(error).__name__, "text": str(error)}
        return {**shown, **({"turn": names.of_turn(partial)} if partial is not None else {})}
    return {"closed": True} if done is None else {"turn": names.of_turn(done)}


def _of_options(options: ChatOptions) -> dict[str, Any]:
    """Return what differs from a request that asks for nothing; of tools and formats their names."""
    shown = {
        name: value
        for name, value in attrs.asdict(options, recurse=False).items()
        if value != getattr(ChatOptions(), name)
    }
    if "tools" in shown:
        shown["tools"] = [tool.get("name") or tool.get("function", {}).get("name") for tool in options.tools]
    if options.response_format is not None:
        shown["response_format"] = [options.response_format.type, options.response_format.name]
    if options.reasoning is not None:
        shown["reasoning"] = attrs.asdict(options.reasoning)
    assert "timeout_s" in shown, "every request says how many seconds are left"
    del shown["timeout_s"]
    return shown


_TIMES = re.compile(r"('execution_time_ms': |timed out after )\d+")


def _normal(trace: dict[str, Any], calls: Mapping[str, str]) -> dict[str, Any]:
    """Return a trace as JSON data in which no id and no time is left."""
    text = _TIMES.sub(r"\g<1>0", json.dumps(trace, ensure_ascii=False, default=repr))
    for id, name in calls.items():
        text = text.replace(id, name)
    return json.loads(re.sub(r"\b[0-9a-f]{32}\b", "ID", text))


def both(play: Play) -> dict[str, Any]:
    """Return the traces of a scene, answered whole and streamed; what is the same in both stands once."""

    async def run() -> dict[str, Any]:
        only_streamed = (scene := play()).only_streamed or scene.close_after is not None
        whole = {} if only_streamed else await record(play, streamed=False)
        streamed = await record(play, streamed=True)
        whole.pop("events", None)
        return {"respond": whole, "stream": {k: v for k, v in streamed.items() if whole.get(k) != v}}

    return asyncio.run(run())


def written(traces: Mapping[str, Any]) -> str:
    """Return the traces of a group as JSON for people: a line for each thing that happened."""
    return _block(traces, 0) + "\n"


def _block(value: Any, depth: int, wide: int = 118) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if depth and (not isinstance(value, dict | list) or len(flat) + depth <= wide) and depth > 2:
        return flat
    pad = " " * (depth + 1)
    if isinstance(value, dict) and value:
        items = [f"{pad}{json.dumps(k, ensure_ascii=False)}: {_block(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(items) + "\n" + " " * depth + "}"
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(pad + _block(v, depth + 1) for v in value) + "\n" + " " * depth + "]"
    return flat


GOLDEN = Path(__file__).parent / "golden"
