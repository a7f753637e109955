"""Roles × tools × every entrance: what is listed is what runs, and a new entrance fails until it is in a table here.

The model of the configuration asks for each tool there is, whatever it was offered.
"""

import asyncio
import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import entrance_tools
import httpx
import pytest
from flexchat import FlexChat, Principal, Reply, ToolContext, tool
from flexchat.host import current_principal
from flexchat.plugin import hookimpl
from flexchat_cli.entry_points import installed_commands
from flexchat_cli.main import OWN, main
from flexchat_web import create_app
from flexchat_web.serving import Settings
from mcp_fixtures import META, MODERN, message_of

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "token-of-the-principal"
EFFECTS = {"get_balance": "read", "get_order": "read", "pay": "write"}
GRANTS = {
    "reader": {"tools": ["get_*"]},
    "payer": {"tools": ["pay", "get_balance"], "permissions": ["approve"]},
    "admin": {"tools": ["*"], "permissions": ["approve", "edit", "view_costs", "view_others"]},
}
GRANTED = {
    None: set(),
    "stranger": set(),
    "reader": {"get_balance", "get_order"},
    "payer": {"get_balance", "pay"},
    "admin": {*EFFECTS},
}
OPENAI = {"model": "flexchat", "messages": [{"role": "user", "content": "Go"}]}

BY_ROLE = pytest.mark.parametrize("role", GRANTED, ids=str)

# What each operation of the server that can run tools is sent, so that it does.
HTTP_CALLS = {
    "POST /chat/api": {"prompt": "Go"},
    "POST /v1/chat/completions": OPENAI,
    "POST /v1/responses": {"model": "flexchat", "input": "Go", "store": False},
}
# Each by a test of its own.
HTTP_OTHERS = {
    "POST /api/tools/call": "test_a_call_over_http",
    "POST /api/turns/{id}/resume": "test_a_turn_goes_on_with_the_principal_it_began_with",
    "POST /api/questions/{id}/reply": "test_an_approved_call_over_http",
    "POST /api/tools/test": "test_tools_of_validation",
    "POST /api/validation/runs": "test_tools_of_validation",
    "POST /api/validation/runs/{id}/resume": "test_tools_of_validation",
    "POST /api/approvals/by-token/{token}": "test_a_link_has_no_principal",
}
HTTP_LISTS = {
    "GET /api/tools/list": None,
    "GET /api/tools/available": None,
    "GET /api/tools/lint": None,
    "GET /api/tools/cost": None,
    "GET /api/tools/sources": None,
    "POST /api/explain": {"prompt": "Go"},
    "GET /api/config": None,
    "GET /api/config/export": None,
    "GET /api/ui-config": None,
    "GET /v1/models": None,
    "GET /api/models/list": None,
    "GET /openapi.json": None,
}
# Run and list no tools.
HTTP_NONE = {
    "kept conversations": [
        *("GET /api/conversations", "GET /api/conversations/{id}", "PATCH /api/conversations/{id}"),
        *("DELETE /api/conversations/{id}", "GET /api/conversations/{id}/export", "GET /v1/responses/{id}"),
        *("GET /v1/responses/{id}/input_items", "DELETE /v1/responses/{id}", "POST /v1/responses/{id}/cancel"),
        *("POST /api/media", "GET /api/media/{sha256}"),
    ],
    "kept turns, questions and effects": [
        *("GET /api/turns", "GET /api/turns/{id}", "GET /api/turns/{id}/events", "POST /api/turns/{id}/cancel"),
        *("GET /api/questions", "GET /api/questions/{id}", "GET /api/effects", "GET /api/effects/{id}"),
        *("POST /api/effects/{id}/settle", "GET /api/approvals/count", "GET /api/approvals/rules"),
        *("DELETE /api/approvals/rules/{id}", "GET /api/approvals/by-token/{token}"),
    ],
    "costs, for who may view them": ["GET /api/costs"],
    "figures, for who may view others": ["GET /api/stats", "GET /metrics"],
    "results of validation": [
        *("GET /api/tools/validation", "POST /api/tools/validate", "GET /api/validation/cases"),
        *("GET /api/validation/matrix", "GET /api/validation/attempts", "GET /api/validation/export"),
        *("POST /api/validation/import", "POST /api/validation/plan", "GET /api/validation/runs"),
        *("GET /api/validation/runs/{id}", "DELETE /api/validation/runs/{id}", "GET /api/validation/runs/{id}/events"),
    ],
    "the configuration, for who may edit": [
        *("GET /api/config/schema", "POST /api/config/validate", "POST /api/config/edit", "POST /api/config/diff"),
        *("PUT /api/config", "POST /api/config/reload", "POST /api/tools/sources/{name}/look"),
        *("POST /api/tools/sources/{name}/restart", "POST /api/tools/sources/{name}/accept"),
        *("POST /api/connections/providers/{name}/models", "POST /api/connections/llm/discovery/models"),
        *("GET /api/connections/providers", "GET /api/connections/providers/{name}/schema"),
        "POST /api/connections/test",
    ],
    "models alone, the server, the session": [
        *("POST /v1/embeddings", "GET /v1/models/{id:path}", "GET /docs", "GET /health", "GET /ready"),
        *("POST /api/markdown", "POST /api/session", "DELETE /api/session"),
    ],
}
# Command lines that run tools.
CLI_CALLS = {
    "ask": ["ask", "Go"],
    "chat": ["chat"],
    "batch": ["batch", "prompts.jsonl"],
    "tools call": ["tools", "call", "NAME"],
}
CLI_OTHERS = {
    "turns resume": "test_a_turn_goes_on_with_the_principal_it_began_with",
    "approvals approve": "test_an_approved_call_at_the_terminal",
    "approvals reject": "test_an_approved_call_at_the_terminal",
    "worker": "test_a_turn_goes_on_with_the_principal_it_began_with",
    "mcp serve": "test_mcp_over_stdio",
    "mcp call": "plugins/flexchat-mcp/tests/commands/test_call.py",
    "tools record": "the same call as tools call",
    "validate": "test_tools_of_validation",
    "serve": "test_every_operation_is_in_a_table",
    "tools list": "test_listings_at_the_terminal",
    "tools show": "test_listings_at_the_terminal",
    "explain": "test_listings_at_the_terminal",
    "can": "plugins/flexchat-policy/tests/test_commands.py",
    "costs": "plugins/flexchat-policy/tests/test_costs.py",
    "tools cost": "test_listings_at_the_terminal",
    "tools lint": "test_listings_at_the_terminal",
    "tools find": "test_searches_at_the_terminal",
}
CLI_NONE = {
    "kept conversations": [
        *("logs", "conversations list", "conversations show", "conversations rename", "conversations delete"),
        *("conversations export", "conversations import", "record", "effects list", "effects show", "effects settle"),
        *(
            "stats",
            "slo",
            "turns list",
            "turns show",
            "turns cancel",
            "approvals list",
            "approvals show",
            "approvals rules list",
        ),
        "approvals rules revoke",
    ],
    "the operator's files": [
        *("backup", "restore", "migrate", "init", "keys set", "keys list", "keys get", "keys delete", "prompts list"),
        *("prompts show", "models default", "aliases list", "aliases set", "aliases remove", "plugins", "check"),
        *("config schema", "completion", "new", "plugins verify", "cases check", "cases import", "cases list"),
        *("validations export", "validations import", "validations list", "validations show", "tools diff"),
        *("tools accept", "tools import", "mcp add", "mcp import", "mcp list", "mcp login", "mcp logout", "models"),
        *("tokens add", "tokens list", "tokens remove"),
    ],
    "descriptions that a server sends, before any is accepted": [
        *("mcp doctor", "mcp inspect", "mcp prompts", "mcp resources"),
    ],
    "documents: test_collections.py of flexchat-policy": [
        *("rag add", "rag delete", "rag export", "rag list", "rag query", "rag show", "rag stats"),
    ],
    "a configuration of its own": ["demo", "demo rag"],
}
# Modules that start turns or calls: each is, or is used by, an entrance above or below.
CALLING_MODULES = {
    "flexchat_approvals/commands/approvals.py": "approvals approve",
    "flexchat_approvals/reviewing.py": "a model that reviews a call, without tools",
    "flexchat_cli/ask.py": "ask",
    "flexchat_cli/batch.py": "batch",
    "flexchat_cli/chat.py": "chat",
    "flexchat_cli/explain.py": "explain",
    "flexchat_cli/tools.py": "tools call",
    "flexchat_cli/turns.py": "turns resume",
    "flexchat_langchain/turns.py": "test_langchain",
    "flexchat_mcp/calling.py": "the tools of an MCP server, within the steps of a call",
    "flexchat_mcp/commands/call.py": "mcp call",
    "flexchat_mcp/serve/calls.py": "/mcp, mcp serve",
    "flexchat_mcp/serve/http.py": "/mcp",
    "flexchat_mcp/serve/turns.py": "/mcp, mcp serve",
    "flexchat_mock/commands/record.py": "tools record",
    "flexchat_queue/worker.py": "worker",
    "flexchat_rag/commands/demo.py": "demo rag",
    "flexchat_validation/attempting.py": "POST /api/validation/runs, validate",
    "flexchat_validation/web/tool_test.py": "POST /api/tools/test",
    "flexchat_web/api/chat.py": "POST /chat/api",
    "flexchat_web/api/questions.py": "POST /api/questions/{id}/reply",
    "flexchat_web/api/responses.py": "POST /v1/responses",
    "flexchat_web/api/tools.py": "POST /api/tools/call",
    "flexchat_web/api/turns.py": "POST /chat/api, POST /api/turns/{id}/resume",
}
_STARTS = re.compile(
    r"\b(?:chat|trial|reviewer|_chat)\.(?:respond|stream|start|join|submit|call_tool|start_resumed|resume|"
    r"resume_interrupted|explain|preview|answer)\(|(?<!def )\bcall_tool\(\s*client\b"
)


def make_config(tmp_path, terminal=None):
    tools = [
        {
            "name": name,
            "description": f"It does {name}.",
            "parameters": {"type": "object", "properties": {}},
            "effect": effect,
            "implementation": {"type": "python", "function": f"entrance_tools:{name}"},
        }
        for name, effect in EFFECTS.items()
    ]
    replies = [{"tool_calls": [{"name": name, "arguments": {}} for name in EFFECTS]}, {"text": "Done"}]
    roles = dict(GRANTS)
    if terminal in GRANTS:
        roles["terminal"] = GRANTS[terminal]
    return {
        "llms": {"s": {"provider": "scripted", "repeat": True, "replies": replies}},
        "responses": [{"llm": "s", "model": "m", "tools": {}}],
        "tools": {"registry": tools},
        "conversations": {"provider": "sqlite", "path": str(tmp_path / "c.db")},
        "questions": {"expires": "1h"},
        "mcp_server": {},
        "validation": {
            "store": str(tmp_path / "v.db"),
            "run_tools": True,
            "cases": [{"name": "c", "message": "Go", "calls": [{"tool": "get_balance"}]}],
        },
        "roles": roles,
    }


def principal_with(role):
    return None if role is None else Principal("ann", role)


@pytest.fixture(autouse=True)
def ran(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    entrance_tools.RAN.clear()
    token = current_principal.set(None)
    yield entrance_tools.RAN
    current_principal.reset(token)


@pytest.fixture
async def open_client(tmp_path):
    """Return a function that opens a client of a server with one token, of a principal with this role."""
    async with contextlib.AsyncExitStack() as stack:

        async def open_client(role, **settings):
            file = tmp_path / "tokens"
            file.write_text(f"default {TOKEN} {role} user=ann\n")
            known = {"tokens": {TOKEN: "default"}} if role is None else {"token_file": file}
            settings = Settings(**known, resume=False, **settings)
            app = create_app(make_config(tmp_path), settings=settings)
            stack.push_async_callback(app.aclose)
            transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
            headers = {"authorization": f"Bearer {TOKEN}"}
            base = "http://127.0.0.1:8000"
            client = httpx.AsyncClient(transport=transport, base_url=base, headers=headers, timeout=60)
            client.app = app
            return await stack.enter_async_context(client)

        yield open_client


def names_in(text):
    return {name for name in EFFECTS if re.search(rf"\b{name}\b", text)}


async def test_every_operation_is_in_a_table(open_client):
    """A new one fails here until it is."""
    client = await open_client("admin")
    operations = {f"{each.method} {each.path}" for each in client.app.operations}
    none = {entry for entries in HTTP_NONE.values() for entry in entries}

    assert operations == {*HTTP_CALLS, *HTTP_OTHERS, *HTTP_LISTS, *none}
    assert [app.path for app in client.app._apps] == ["/mcp"]


def test_every_command_is_in_a_table():
    """Ours and those of all packages."""
    commands = {*OWN, *installed_commands().by_name}
    none = {entry for entries in CLI_NONE.values() for entry in entries}

    assert commands == {*CLI_CALLS, *CLI_OTHERS, *none}


def test_every_module_that_starts_turns_or_calls_is_in_a_table():
    """Found by the methods of a chat that do."""
    found = {
        file.as_posix().rpartition("/src/")[2]
        for file in ROOT.glob("plugins/*/src/**/*.py")
        if _STARTS.search(file.read_text("utf-8")) and "flexchat_testing" not in file.parts
    }

    assert found == {*CALLING_MODULES}


@BY_ROLE
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("entrance", HTTP_CALLS)
async def test_a_turn_over_http(open_client, ran, entrance, role, is_stream):
    """Whatever its model asks for."""
    client = await open_client(role)
    method, path = entrance.split()

    response = await client.request(method, path, json={**HTTP_CALLS[entrance], "stream": is_stream})

    assert {*ran} == GRANTED[role], response.text
    if not GRANTED[role]:
        assert "permitted" in response.text


@BY_ROLE
@pytest.mark.parametrize("name", EFFECTS)
async def test_a_call_over_http(open_client, ran, role, name):
    """The result names the refusal."""
    client = await open_client(role)

    result = (await client.post("/api/tools/call", json={"name": name, "arguments": {}})).json()

    assert ran == ([name] if name in GRANTED[role] else [])
    assert result["success"] == (name in GRANTED[role])
    assert result["success"] or "Not permitted" in result["error"]


@BY_ROLE
async def test_listings_over_http(open_client, ran, role):
    """Each operation that reads, with what is granted and nothing else; also those that list no tools."""
    client = await open_client(role)
    listed = {}
    for operation in client.app.operations:
        entrance = f"{operation.method} {operation.path}"
        if operation.method != "GET" and entrance not in HTTP_LISTS:
            continue
        path = re.sub(r"\{\w+(:path)?\}", "0" * 32, operation.path)
        response = await client.request(operation.method, path, json=HTTP_LISTS.get(entrance))
        listed[entrance] = names_in(response.text)

    assert {entrance: names for entrance, names in listed.items() if names - GRANTED[role]} == {}
    assert listed["GET /api/tools/list"] == GRANTED[role]
    assert listed["POST /api/explain"] == GRANTED[role]
    assert ran == []


@BY_ROLE
async def test_mcp_over_http(open_client, ran, role):
    """Its tools, and the tool that is the chat."""
    client = await open_client(role)

    async def ask(method, **params):
        facts = {f"{META}/protocolVersion": MODERN, f"{META}/clientCapabilities": {}}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": facts}}
        headers = {
            "mcp-protocol-version": MODERN,
            "mcp-method": method,
            "accept": "application/json, text/event-stream",
        }
        headers |= {"mcp-name": params["name"]} if "name" in params else {}
        return message_of(await client.post("/mcp", json=body, headers=headers))

    listed = await ask("tools/list")
    for name in EFFECTS:
        answer = await ask("tools/call", name=name, arguments={})
        assert (name in GRANTED[role]) == ("result" in answer and not answer["result"].get("isError", False))
    assert sorted(ran) == sorted(GRANTED[role])
    ran.clear()
    await ask("tools/call", name="ask", arguments={"message": "Go"})

    assert {each["name"] for each in listed["result"]["tools"]} & {*EFFECTS} == GRANTED[role]
    assert {*ran} == GRANTED[role]


@BY_ROLE
async def test_tools_of_validation(open_client, ran, role):
    """Where they are run and not replaced, with the roles of who started the test."""
    client = await open_client(role)
    body = {"model": "s/m", "query": "Go", "run_tools": True, "record": False}
    await client.post("/api/tools/test", json=body)
    assert {*ran} == GRANTED[role]
    ran.clear()

    started = await client.post("/api/validation/runs", json={"models": ["s/m"], "runs": 1})
    if started.status_code == 202:  # else the case names a tool that is not granted
        await client.get(f"/api/validation/runs/{started.json()['id']}/events")

    assert {*ran} == GRANTED[role]


@BY_ROLE
@pytest.mark.parametrize("name", EFFECTS)
async def test_a_turn_goes_on_with_the_principal_it_began_with(tmp_path, ran, role, name):
    """Whoever resumes it: a worker, a server, a person with more roles."""
    config = make_config(tmp_path)
    config["llms"]["s"]["replies"] = [{"tool_calls": [{"name": name, "arguments": {}}]}, {"text": "Done"}]
    async with FlexChat.from_config(config) as chat:
        await chat.submit("Go", conversation="c", principal=principal_with(role))
    current_principal.set(Principal("worker", "admin"))
    async with FlexChat.from_config(config) as chat:
        for handle in await chat.resume_interrupted():
            await handle.last()

    assert ran == ([name] if name in GRANTED[role] else [])


@BY_ROLE
async def test_an_approved_call_over_http(open_client, ran, role):
    """Only who may approve does, and the call is still that of its turn's principal."""
    client = await open_client(role)
    async with client.app.serving.chat() as chat:
        turn = await chat.respond("Go", conversation="c", approve=True, principal=Principal("bob", "admin"))
    assert ran == []
    for pending in turn.pending:
        await client.post(f"/api/questions/{pending.id}/reply", json={"action": "accept"})
    async with client.app.serving.chat() as chat:
        current_principal.set(Principal("root", "admin"))
        states = {each.state for each in await chat.pending(states=None)}

    may_approve = role in ("payer", "admin")
    assert ("open" not in states) == may_approve


async def test_a_link_has_no_principal(open_client, ran):
    """A reply by a link of a webhook is not permitted where there are roles."""
    client = await open_client("admin")
    async with client.app.serving.chat() as chat:
        turn = await chat.respond("Go", conversation="c", approve=True, principal=Principal("bob", "admin"))
        current_principal.set(None)
        with pytest.raises(Exception, match="no identity was established"):
            await chat.answer(turn.pending[0].id, Reply(action="accept"))
    assert ran == []


@pytest.fixture
def run_command(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command line whose user has this role, and returns status and output."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompts.jsonl").write_text('"Go"\n')

    def run_command(role, words):
        (tmp_path / "flexchat.json").write_text(json.dumps(make_config(tmp_path, terminal=role)))
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Go\n" if words == ["chat"] else b"")))
        status = main(words)
        said = capsys.readouterr()
        return status, said.out + said.err

    return run_command


@pytest.mark.parametrize("role", [None, "reader", "payer", "admin"], ids=str)
@pytest.mark.parametrize("command", CLI_CALLS)
def test_a_command_runs_what_the_terminal_may(run_command, ran, command, role):
    """The user of the operating system has the role "terminal"."""
    said = ""
    for name in EFFECTS if "NAME" in CLI_CALLS[command] else [""]:
        said += run_command(role, [name if word == "NAME" else word for word in CLI_CALLS[command]])[1]

    assert {*ran} == GRANTED[role], said


@pytest.mark.parametrize("role", [None, "reader", "payer", "admin"], ids=str)
def test_listings_at_the_terminal(run_command, ran, role):
    """What may be called, and nothing else."""
    lists = {
        words: names_in(run_command(role, words.split())[1])
        for words in ("tools list", "tools cost", "tools lint", "explain Go --json")
    }

    assert {words: names for words, names in lists.items() if names - GRANTED[role]} == {}
    assert lists["tools list"] == GRANTED[role]
    for name in EFFECTS:
        status, _ = run_command(role, ["tools", "show", name])
        assert (status == 0) == (name in GRANTED[role])
    assert ran == []


@pytest.mark.parametrize("role", ["reader", "payer", "admin"])
async def test_deferred_tools(tmp_path, ran, role):
    """A search finds, a request has, and a call runs what may be used; no role has to grant find_tools."""
    calls = [{"name": name, "arguments": {}} for name in EFFECTS]
    search = {"name": "find_tools", "arguments": {"query": "get_balance get_order pay"}}
    config = make_config(tmp_path)
    config["tools"]["search"] = {"above": 0}
    config["llms"]["s"]["replies"] = [{"tool_calls": [search]}, {"tool_calls": calls}, {"text": "Done"}]
    seen = []

    class Watch:
        @hookimpl
        def flexchat_model_request_started(self, messages, options):
            seen.append((messages, options.tools))

    async with FlexChat.from_config(config, hooks=[Watch()]) as chat:
        turn = await chat.respond("Go", principal=principal_with(role))

    assert names_in(json.dumps(turn.tool_calls[0].result.result["tools"])) == GRANTED[role]
    assert names_in(repr([tools for _, tools in seen])) == GRANTED[role]
    assert {*ran} == GRANTED[role]


@pytest.mark.parametrize("role", [None, "reader", "payer", "admin"], ids=str)
def test_searches_at_the_terminal(run_command, monkeypatch, role):
    """The same tools."""
    make = make_config

    def with_search(*args, **kwargs):
        config = make(*args, **kwargs)
        return {**config, "tools": {**config["tools"], "search": {"above": 0}}}

    monkeypatch.setitem(globals(), "make_config", with_search)
    _, said = run_command(role, ["tools", "find", "get balance or order, pay"])
    assert names_in(said) == GRANTED[role]


@pytest.mark.parametrize("role", [None, "reader", "payer", "admin"], ids=str)
@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_an_approved_call_at_the_terminal(run_command, tmp_path, ran, role, verb):
    """Only who may approve does."""

    async def suspend():
        async with FlexChat.from_config(make_config(tmp_path)) as chat:
            turn = await chat.respond("Go", conversation="c", approve=True, principal=Principal("bob", "admin"))
            return [each.id for each in turn.pending]

    pending = asyncio.run(suspend())
    statuses = [run_command(role, ["approvals", verb, id])[0] for id in pending]
    may_approve = role in ("payer", "admin")

    assert {*ran} == ({*EFFECTS} if may_approve and verb == "approve" else set())
    assert (3 in statuses) == may_approve  # it asks again: this model begins anew in each process


@pytest.mark.slow
@pytest.mark.parametrize("role", [None, "reader", "payer", "admin"], ids=str)
def test_mcp_over_stdio(tmp_path, role):
    """The user of the operating system who starts the program."""
    (tmp_path / "flexchat.json").write_text(json.dumps(make_config(tmp_path, terminal=role)))
    facts = {"_meta": {f"{META}/protocolVersion": MODERN, f"{META}/clientCapabilities": {}}}
    requests = [{"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": facts}]
    for number, name in enumerate(EFFECTS, 1):
        params = {"name": name, "arguments": {}, **facts}
        requests.append({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    command = [sys.executable, "-m", "flexchat", "mcp", "serve"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(entrance_tools.__file__).parent)},
        text=True,
    ) as process:
        answers = {}
        for request in requests:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            answers[answer["id"]] = answer
        process.stdin.close()
        process.stdout.read()

    listed = {each["name"] for each in answers[0]["result"]["tools"]}
    runs = {
        name
        for number, name in enumerate(EFFECTS, 1)
        if "result" in answers[number] and not answers[number]["result"].get("isError", False)
    }
    assert listed & {*EFFECTS} == runs == GRANTED[role]


@BY_ROLE
async def test_langchain(tmp_path, ran, role):
    """Tools for LangChain's programs, and the chat as a model."""
    from flexchat_langchain.model import FlexChatModel
    from flexchat_langchain.tools import langchain_tools

    current_principal.set(principal_with(role))
    async with FlexChat.from_config(make_config(tmp_path)) as chat:
        exported = langchain_tools(chat)
        for each in exported:
            await each.ainvoke({})
        assert {*ran} == {each.name for each in exported} == GRANTED[role]
        ran.clear()
        with contextlib.suppress(Exception):
            await FlexChatModel(chat=chat).ainvoke("Go")

    assert {*ran} == GRANTED[role]


@BY_ROLE
async def test_inner_calls_and_nested_turns(tmp_path, ran, role):
    """A tool that is granted opens no other one, whoever it names."""
    admin = Principal("root", "admin")

    @tool(effect="read")
    async def nest(context: ToolContext) -> str:
        """Call and ask."""
        for name in EFFECTS:
            await context.call_tool(name, {})
            await chat.call_tool(name, {}, principal=admin)
        with contextlib.suppress(Exception):
            await chat.respond("Go", principal=admin)
        return "done"

    config = make_config(tmp_path)
    for grants in config["roles"].values():
        grants["tools"] = [*grants["tools"], "nest"]
    async with FlexChat.from_config(config, tools=[nest]) as chat:
        await chat.call_tool("nest", {}, principal=principal_with(role))

    assert {*ran} == GRANTED[role]


@BY_ROLE
async def test_operations_that_need_a_permission(open_client, role):
    """Whatever they are sent; changing the configuration and reading it whole are two of them."""
    client = await open_client(role, edit=True)
    needs = [each for each in client.app.operations if each.edits or each.permission]
    for operation in needs:
        path = re.sub(r"\{\w+(:path)?\}", "x", operation.path)
        response = await client.request(operation.method, path, json=None if operation.body is None else {})
        assert (response.status_code == 403) == (role != "admin"), f"{operation.name}: {response.text}"
        assert role == "admin" or "the permission" in response.text or "no identity" in response.text

    assert len(needs) > 10
    assert (await client.get("/api/ui-config")).json()["read_only"] == (role != "admin")
