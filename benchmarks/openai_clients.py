# ruff: noqa: E501
"""Run OpenAI's clients against a server: chat, stream, tools of both sides, a form, the background. Print a table.

    python -m venv clients && clients/bin/pip install openai openai-agents llm litellm langchain-openai
    npm install --prefix clients openai ai @ai-sdk/openai zod
    python benchmarks/openai_clients.py --python clients/bin/python --node clients

The server's model calls a tool of the client and one of its own as long as it has no result of the client's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import threading
from pathlib import Path

import uvicorn
from flexchat import FlexChat, tool
from flexchat_testing import ScriptedProvider, calls, says
from flexchat_web import create_app

FORM = {"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]}
FORM["additionalProperties"] = False

PYTHON = {
    "openai (Python)": {
        "chat": "print(c.chat.completions.create(model='flexchat', messages=M).choices[0].message.content)",
        "stream": "print(''.join(e.choices[0].delta.content or '' for e in c.chat.completions.create(model='flexchat', messages=M, stream=True)))",
        "tools": """
a = c.chat.completions.create(model='flexchat', messages=M, tools=T).choices[0].message
r = [{'role': 'tool', 'tool_call_id': a.tool_calls[0].id, 'content': 'a cloud'}]
print(c.chat.completions.create(model='flexchat', messages=[*M, a, *r], tools=T).choices[0].message.content)""",
        "form": "print(c.chat.completions.create(model='flexchat', messages=M, response_format={'type': 'json_schema', 'json_schema': {'name': 'w', 'schema': F}}).choices[0].message.content)",
    },
    "openai (Python), Responses": {
        "chat": "print(c.responses.create(model='flexchat', input='x').output_text)",
        "stream": """
with c.responses.stream(model='flexchat', input='x') as s:
    for e in s: pass
    print(s.get_final_response().output_text)""",
        "tools": """
t = [{'type': 'function', **T[0]['function'], 'strict': False}]
a = c.responses.create(model='flexchat', input='x', tools=t)
o = [{'type': 'function_call_output', 'call_id': i.call_id, 'output': 'a cloud'} for i in a.output if i.type == 'function_call']
print(c.responses.create(model='flexchat', input=o, tools=t, previous_response_id=a.id).output_text)""",
        "form": "print(c.responses.create(model='flexchat', input='x', text={'format': {'type': 'json_schema', 'name': 'w', 'schema': F}}).output_text)",
        "background": """
import time
a = c.responses.create(model='flexchat', input='x', background=True)
while a.status in ('queued', 'in_progress'):
    time.sleep(0.1); a = c.responses.retrieve(a.id)
print(a.output_text)""",
    },
    "openai-agents": {
        "chat": "print(Runner.run_sync(agent(), 'x').final_output)",
        "stream": """
async def go():
    r = Runner.run_streamed(agent(), 'x')
    async for e in r.stream_events(): pass
    print(r.final_output)
asyncio.run(go())""",
        "tools": "print(Runner.run_sync(agent(tools=[look]), 'x').final_output)",
        "form": """
class W(BaseModel):
    celsius: float
print(Runner.run_sync(agent(output_type=W), 'x').final_output.model_dump_json())""",
    },
    "LiteLLM": {
        "chat": "print(litellm.completion(messages=M, **L).choices[0].message.content)",
        "stream": "print(''.join(e.choices[0].delta.content or '' for e in litellm.completion(messages=M, stream=True, **L)))",
        "tools": """
a = litellm.completion(messages=M, tools=T, **L).choices[0].message
r = [{'role': 'tool', 'tool_call_id': a.tool_calls[0].id, 'content': 'a cloud'}]
print(litellm.completion(messages=[*M, a.model_dump(), *r], tools=T, **L).choices[0].message.content)""",
        "form": "print(litellm.completion(messages=M, response_format={'type': 'json_schema', 'json_schema': {'name': 'w', 'schema': F}}, **L).choices[0].message.content)",
        "background": "print(litellm.responses(input='x', **L).output[0].content[0].text)",
    },
    "LangChain ChatOpenAI": {
        "chat": "print(m.invoke('x').content)",
        "stream": "print(''.join(e.content for e in m.stream('x')))",
        "tools": """
b = m.bind_tools(T)
a = b.invoke('x')
print(b.invoke([HumanMessage('x'), a, ToolMessage('a cloud', tool_call_id=a.tool_calls[0]['id'])]).content)""",
        "form": "print(__import__('json').dumps(m.with_structured_output({'title': 'w', 'description': 'w', **F}, method='json_schema').invoke('x')))",
    },
}
BEFORE = {
    "openai": "import openai; c = openai.OpenAI(base_url=URL, api_key='x')",
    "openai-agents": """
import asyncio, openai
from agents import Agent, Runner, function_tool, set_default_openai_client, set_tracing_disabled
from pydantic import BaseModel
set_tracing_disabled(True); set_default_openai_client(openai.AsyncOpenAI(base_url=URL, api_key='x'))
@function_tool
def look() -> str:
    "Look."
    return 'a cloud'
def agent(**more): return Agent(name='a', instructions='Be brief.', model='flexchat', **more)""",
    "LiteLLM": "import litellm; L = dict(model='openai/flexchat', api_base=URL, api_key='x')",
    "LangChain": """
from langchain_openai import ChatOpenAI
from langchain_core.messages import HumanMessage, ToolMessage
m = ChatOpenAI(model='flexchat', base_url=URL, api_key='x')""",
}
NODE_BEFORE = """
import OpenAI from 'openai'; import { generateText, streamText, tool, stepCountIs, generateObject } from 'ai';
import { createOpenAI } from '@ai-sdk/openai'; import { z } from 'zod';
const URL_ = process.env.URL_, c = new OpenAI({ baseURL: URL_, apiKey: 'x' });
const model = createOpenAI({ baseURL: URL_, apiKey: 'x' }).responses('flexchat');
const M = [{ role: 'user', content: 'x' }], F = JSON.parse(process.env.FORM);
const T = [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }];
"""
NODE = {
    "openai (npm)": {
        "chat": "console.log((await c.chat.completions.create({ model: 'flexchat', messages: M })).choices[0].message.content)",
        "stream": "let s = ''; for await (const e of await c.chat.completions.create({ model: 'flexchat', messages: M, stream: true })) s += e.choices[0]?.delta.content ?? ''; console.log(s)",
        "tools": "const a = (await c.chat.completions.create({ model: 'flexchat', messages: M, tools: T })).choices[0].message; const r = { role: 'tool', tool_call_id: a.tool_calls[0].id, content: 'a cloud' }; console.log((await c.chat.completions.create({ model: 'flexchat', messages: [...M, a, r], tools: T })).choices[0].message.content)",
        "form": "console.log((await c.responses.create({ model: 'flexchat', input: 'x', text: { format: { type: 'json_schema', name: 'w', schema: F } } })).output_text)",
        "background": "let a = await c.responses.create({ model: 'flexchat', input: 'x', background: true }); while (['queued', 'in_progress'].includes(a.status)) { await new Promise((r) => setTimeout(r, 100)); a = await c.responses.retrieve(a.id); } console.log(a.output_text)",
    },
    "@ai-sdk/openai": {
        "chat": "console.log((await generateText({ model, prompt: 'x' })).text)",
        "stream": "let s = ''; for await (const t of streamText({ model, prompt: 'x' }).textStream) s += t; console.log(s)",
        "tools": "console.log((await generateText({ model, prompt: 'x', stopWhen: stepCountIs(3), tools: { look: tool({ description: 'Look.', inputSchema: z.object({}), execute: async () => 'a cloud' }) } })).text)",
        "form": "console.log(JSON.stringify((await generateObject({ model, prompt: 'x', schema: z.object({ celsius: z.number() }) })).object))",
    },
}


@tool
def get_weather() -> dict[str, int]:
    """Return the weather."""
    return {"celsius": 21}


class Model(ScriptedProvider):
    """Answers by what it is sent, not in an order."""

    async def generate_chat(self, messages, model, options):
        """Call tools of both sides first; answer in the form that is requested."""
        offered = [each["function"]["name"] for each in options.tools or ()]
        if "look" in offered and messages[-1].role != "tool":
            return calls(("look", {}), ("get_weather", {}))
        if options.response_format is not None:
            return says('{"celsius": 21}')
        seen = [message.content for message in messages if message.role == "tool"]
        return says(f"Seen: {len(seen)} results." if seen else "Hello.")


def serve(folder: Path) -> tuple[uvicorn.Server, str]:
    """Serve a configuration with this model."""
    tables = {
        "llms": {"robot": {"provider": "scripted"}},
        "conversations": {"path": str(folder / "chat.db")},
        "responses": [{"llm": "robot", "model": "r1", "tools": {"enabled": True}}],
    }
    original = FlexChat.from_config.__func__

    def from_config(cls, *args, **more):
        return original(cls, *args, **{**more, "providers": {"robot": Model([])}, "tools": [get_weather]})

    FlexChat.from_config = classmethod(from_config)
    server = uvicorn.Server(uvicorn.Config(create_app(tables), port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.05)
    return server, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"


def run(command: list[str], url: str, cell: str, cwd: str | None = None) -> str:
    """Run one cell; return "yes", or the last line of its error."""
    import json

    environment = {**os.environ, "URL_": url, "FORM": json.dumps(FORM), "OPENAI_API_KEY": "x"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, cwd=cwd, check=False)
    expected = {"tools": "Seen: 2 results.", "form": "celsius"}.get(cell, "Hello.")
    if done.returncode == 0 and expected in done.stdout:
        return "yes"
    return (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1][:160]


def main() -> None:
    """Run all cells."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", help="of an environment with the Python clients")
    parser.add_argument("--node", help="folder with node_modules")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server, url = serve(Path(folder))
        shared = (
            f"URL = {url!r}; F = {FORM!r}; M = [{{'role': 'user', 'content': 'x'}}]\n"
            "T = [{'type': 'function', 'function': {'name': 'look', 'description': 'Look.', "
            "'parameters': {'type': 'object', 'properties': {}}}}]\n"
        )
        print("| client | chat | stream | tools | form | background |\n|---|---|---|---|---|---|")
        for client, cells in (PYTHON if given.python else {}).items():
            before = next(text for name, text in BEFORE.items() if client.startswith(name) or name == "openai")
            before = next(
                (text for name, text in BEFORE.items() if name != "openai" and client.startswith(name)), before
            )
            row = {
                cell: run([given.python, "-c", f"{shared}{before}\n{code}"], url, cell) for cell, code in cells.items()
            }
            print(line(client, row), flush=True)
        for client, cells in (NODE if given.node else {}).items():
            row = {}
            for cell, code in cells.items():
                command = ["node", "--input-type=module", "-e", NODE_BEFORE + code]
                row[cell] = run(command, url, cell, cwd=given.node)
            print(line(client, row), flush=True)
        server.should_exit = True


def line(client: str, row: dict[str, str]) -> str:
    """Return a row of the table."""
    return (
        f"| {client} | " + " | ".join(row.get(c, "-") for c in ("chat", "stream", "tools", "form", "background")) + " |"
    )


if __name__ == "__main__":
    main()
