"""History limits, tool search, skills, prompted calls, resumption and fallback together, in five dialects.

A conversation of three turns is drawn; a turn may be resumed from a copy of its database, made while a model answered.
No body may break its service's rules, or have what was deferred and not found, or what the principal may not use.
"""

import importlib.util
import itertools
import json
import re
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from flexchat import FlexChat, Principal, tool
from flexchat.plugin import hookimpl
from flexchat_anthropic.config import AnthropicConfig
from flexchat_anthropic.provider import AnthropicProvider
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.provider import GeminiProvider
from flexchat_ollama.config import OllamaConfig
from flexchat_ollama.provider import OllamaProvider
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider
from flexchat_sdk import prompted_tools
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from examples import examples

pytestmark = pytest.mark.anyio

spec = importlib.util.spec_from_file_location(
    "history_wire", Path(__file__).resolve().parents[2] / "benchmarks" / "history_wire.py"
)
history_wire = importlib.util.module_from_spec(spec)
spec.loader.exec_module(history_wire)
MODELS, fault = history_wire.MODELS, history_wire.fault

SERVICES = [*MODELS]
DEFERRED = "refund_payment", "track_parcel", "send_letter"
FORBIDDEN = "open_vault"
ANNA = Principal("anna", [])


def provider(name, answer):
    """The adapter of a service that answers as *answer* does: a function from a body's bytes to a status and JSON."""

    def handle(request):
        if request.url.path.endswith("/show"):
            return httpx.Response(200, json={"capabilities": ["completion", "tools"]})
        status, value = answer(request.content)
        return httpx.Response(status, json=value)

    transport = httpx.MockTransport(handle)
    match name:
        case "anthropic":
            return AnthropicProvider(AnthropicConfig(api_key="k", max_tokens=1000), transport=transport)
        case "gemini":
            return GeminiProvider(GeminiConfig(api_key="k"), transport=transport)
        case "ollama":
            return OllamaProvider(OllamaConfig(), transport=transport)
    return OpenAIProvider(OpenAIConfig(api_key="k"), transport=transport)


def written(name, text, calls, at):
    """An answer in the service's dialect: a text, or calls with ids that are made of *at*."""
    ids = [f"call_{at}{number}" for number in range(len(calls))]
    each = [*zip(ids, calls, strict=True)]
    match name:
        case "anthropic":
            blocks = [{"type": "tool_use", "id": id, "name": tool, "input": args} for id, (tool, args) in each]
            return {
                **{"id": "i", "type": "message", "role": "assistant", "model": "x"},
                "content": blocks or [{"type": "text", "text": text}],
                "stop_reason": "tool_use" if calls else "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        case "gemini":
            parts = [{"functionCall": {"name": tool, "args": args}} for tool, args in calls] or [{"text": text}]
            return {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
        case "ollama":
            written = [{"function": {"name": tool, "arguments": args}} for tool, args in calls]
            message = {"role": "assistant", "content": "" if calls else text, "tool_calls": written}
            return {"message": message, "done": True, "done_reason": "stop"}
        case "openai":
            written = [
                {"id": id, "type": "function", "function": {"name": tool, "arguments": json.dumps(args)}}
                for id, (tool, args) in each
            ]
            message = {"role": "assistant", "tool_calls": written} if calls else {"role": "assistant", "content": text}
            return {"choices": [{"message": message, "finish_reason": "tool_calls" if calls else "stop"}]}
    items = [
        {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": tool, "arguments": json.dumps(args)}
        for id, (tool, args) in each
    ]
    content = [{"type": "output_text", "text": text}]
    message = {"type": "message", "id": f"msg_{at}", "role": "assistant", "content": content}
    return {"status": "completed", "output": items or [message]}


def offered(value):
    """The names of the tools in a body, in order."""
    names = []
    for each in value.get("tools") or ():
        for one in each.get("functionDeclarations") or [each.get("function") or each]:
            names.append(one["name"])
    return names


def one_tool(name, description):
    def run(a: int = 0) -> str:
        return f"{name} did {a}: " + "x" * 600

    run.__name__, run.__doc__ = name, description
    return tool(run, effect="read")


@pytest.mark.parametrize("name", SERVICES)
async def test_forty_tools_without_a_table_are_sent_as_without_the_packages(name):
    """Byte for byte; the call and its result as well."""

    async def bodies(**tables):
        sent = []

        def answer(body):
            sent.append(body)
            return 200, written(name, "Done.", [] if len(sent) > 1 else [("tool_7", {"a": 1})], 0)

        config = {
            "llms": {"it": {"provider": "openai"}},
            "responses": [{"llm": "it", "model": MODELS[name], "prompt": "Be brief.", "tools": {"enabled": True}}],
            **tables,
        }
        tools = [one_tool(f"tool_{number}", f"Do number {number}.") for number in range(40)]
        async with FlexChat.from_config(config, tools=tools, providers={"it": provider(name, answer)}) as chat:
            await chat.respond("Hello.")
        assert len(offered(json.loads(sent[0]))) == 40
        return [re.sub(rb'(execution_time_ms\\*": )\d+|"call_(?!id")[\w-]+', rb"\1", body) for body in sent]

    plain = await bodies(plugins={"block": ["toolsearch", "skills", "history"]})
    assert len(plain) == 2
    assert await bodies() == plain
    assert await bodies(tools={"search": {"above": 40}}) == plain


class NoVault:
    @hookimpl
    def flexchat_refusal(self, info, subject):
        return "it is closed" if getattr(subject, "name", "") == FORBIDDEN else None


HISTORIES = [
    None,
    'max_tokens = 2600\nkeep_turns = 0\ncompact = "stub"',
    'max_tokens = 2600\nkeep_turns = 0\ncompact = "drop"',
    "max_tokens = 90000\nkeep_last = 1",
]
CALLS = st.sampled_from(
    [
        ("find_tools", {"query": "refund a payment"}),
        ("find_tools", {"query": "track_parcel"}),
        ("find_tools", {"query": FORBIDDEN}),
        *((name, {"a": 1}) for name in (*DEFERRED, FORBIDDEN, "shown", "unknown")),
        ("load_skill", {"name": "refunds"}),
        ("read_skill_file", {"skill": "refunds", "path": "policy.md"}),
    ]
)
TURNS = st.lists(st.lists(st.lists(CALLS, min_size=1, max_size=2), max_size=3), min_size=3, max_size=3)


@st.composite
def cases(draw):
    turns = draw(TURNS)
    steps = sum(len(rounds) + 1 for rounds in turns)
    return {
        "turns": turns,
        "services": draw(st.tuples(st.sampled_from(SERVICES), st.sampled_from(SERVICES))),
        "prompted": draw(st.tuples(st.booleans(), st.booleans())),
        "history": draw(st.sampled_from(HISTORIES)),
        "search": draw(st.booleans()),
        "skills": draw(st.booleans()),
        "fails_at": draw(st.one_of(st.none(), st.integers(0, steps - 1))),  # there, the first service does not answer
        "copied_at": draw(st.one_of(st.none(), st.integers(0, steps - 1))),
    }


def configuration(case):
    first, second = case["services"]
    lines = ['[llms.first]\nprovider = "scripted"\n[llms.second]\nprovider = "scripted"']
    lines += [f'default_model = "{MODELS[second]}"', '[conversations]\nprovider = "sqlite"\npath = "chat.db"']
    lines += [f"[history]\n{case['history']}"] if case["history"] else []
    lines += ["[tools.search]\nabove = 2\nmax_found = 2\nhits = 1"] if case["search"] else []
    lines += ['[[skills]]\nfolder = "skills"'] if case["skills"] else []
    lines += [f'[[responses]]\nllm = "first"\nmodel = "{MODELS[first]}"\nprompt = "Prompt 4711."']
    lines += ['fallback = ["second"]\n[responses.tools]\nmax_iterations = 5']
    lines += ['show = ["shown"]'] if case["search"] else []
    return "\n".join(lines)


class Run:
    """A conversation, or the rest of one of its turns.

    Attributes:
        sent: The step, the service's index and the body of each request.
        step: The number of answers so far.
    """

    def __init__(self, case, folder, step=0):
        self.case, self.folder, self.step, self.sent = case, folder, step, []
        self.script = [step for rounds in case["turns"] for step in [*rounds, []]]
        self.copy = folder / "copy"

    def chat(self):
        providers = {}
        for at, key in enumerate(("first", "second")):
            name, answer = self.case["services"][at], self.answer_of(at)
            plain = provider(name, answer)
            providers[key] = prompted_tools(plain) if self.case["prompted"][at] else plain
        tools = [one_tool(name, f"Marker-{name}: {name.replace('_', ' ')}.") for name in (*DEFERRED, FORBIDDEN)]
        tools.append(one_tool("shown", "Show something."))
        path = self.folder / "flexchat.toml"
        return FlexChat.from_config(path, tools=tools, providers=providers, hooks=[NoVault()])

    def answer_of(self, at):
        def answer(body):
            self.sent.append((self.step, at, json.loads(body)))
            if self.step == self.case["fails_at"] and at == 0:
                return 500, {"error": {"message": "out of order"}}
            if self.step == self.case["copied_at"] and not self.copy.exists() and self.folder.name != "copy":
                self.make_copy()
            calls, self.step = self.script[self.step], self.step + 1
            text = f"Answer {self.step}. " + "w" * 900
            if self.case["prompted"][at] and calls:
                blocks = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls]
                text, calls = "\n".join(f"```tool_call\n{block}\n```" for block in blocks), []
            return 200, written(self.case["services"][at], text, calls, self.step)

        return answer

    def make_copy(self):
        """Copy all files, with the database of this moment, which has no owner any more."""
        shutil.copytree(self.folder, self.copy, ignore=shutil.ignore_patterns("chat.db*", "copy"))
        with (
            closing(sqlite3.connect(self.folder / "chat.db")) as old,
            closing(sqlite3.connect(self.copy / "chat.db")) as new,
        ):
            old.backup(new)
            new.execute("DELETE FROM owners")
            new.commit()

    def check(self, found=()):
        """Check every body; *found* are the tools that were found before."""
        case, found = self.case, {*found}
        for step, at, body in self.sent:
            name = case["services"][at]
            assert fault(name, body) is None, (fault(name, body), body)
            text = json.dumps(body)
            assert f"Marker-{FORBIDDEN}" not in text
            if case["search"]:
                found |= {name for name in DEFERRED for earlier in self.script[:step] if is_found(name, earlier)}
                assert {name for name in DEFERRED if f"Marker-{name}" in text} <= found
                assert {*offered(body)} <= {"shown", "find_tools", "load_skill", "read_skill_file", *found}
                assert len({*offered(body)} & {*DEFERRED}) <= 2
            assert "Prompt 4711." in text
            if case["prompted"][at]:
                assert offered(body) == []
            elif case["skills"] and offered(body):
                assert "load_skill" in offered(body)


def is_found(name, calls):
    """Whether calls may have found a tool: by a search, or by a call without its schema."""
    return any(each == name or (each == "find_tools" and FORBIDDEN not in args["query"]) for each, args in calls)


def comparable(sent):
    """What was sent, without what differs from run to run: times, and ids that FlexChat makes."""
    ids = itertools.count()
    names = {}
    text = re.sub(r'(execution_time_ms\\*": )\d+', r"\1", json.dumps(sent))
    return re.sub(r"\b(call|toolu|fc)_(?!id\b)[\w-]+", lambda match: names.setdefault(match[0], f"<{next(ids)}>"), text)


@pytest.mark.slow
# Not shrunk: that takes minutes.
@settings(max_examples=examples(20), phases=[Phase.explicit, Phase.generate])
@given(cases())
async def test_all_parts_in_pairs(case):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        skill = folder / "skills" / "refunds"
        skill.mkdir(parents=True)
        front = "---\nname: refunds\ndescription: Refunds.\nallowed-tools: refund_payment shown\n---\n"
        (skill / "SKILL.md").write_text(f"{front}Instructions 4712.\n")
        (skill / "policy.md").write_text("At most 30 days.\n")
        (folder / "flexchat.toml").write_text(configuration(case))
        run = Run(case, folder)
        firsts = []
        async with run.chat() as chat:
            for number in range(3):
                firsts.append(run.step)
                turn = await chat.respond(f"Message {number} " + "q" * 900, conversation="c", principal=ANNA)
                assert turn.status == "done"
        run.check()
        if not run.copy.exists():  # nor if a turn ended early, so that the model was asked less often
            return

        begin = max(first for first in firsts if first <= case["copied_at"])
        end = min((first for first in firsts if first > begin), default=len(run.script))
        again = Run(case, folder / "copy", case["copied_at"])
        async with again.chat() as chat:
            (waiting,) = await chat.turns(states=["interrupted"])
            await chat.resume(waiting.id)
        again.check()
        rest = [each for each in run.sent if case["copied_at"] <= each[0] < end]
        # With [history], what a later request leaves out depends on how many tokens this process has seen reported.
        many = 1 if case["history"] else len(rest)
        assert comparable(again.sent[:many]) == comparable(rest[:many])
