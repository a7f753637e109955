"""One approval, delivered twice, to FlexChat, pydantic-ai, langchain, openai-agents and agno: how often does it pay?

    python benchmarks/approvals_peers.py [--runs 10] [--venv FOLDER]

Each run is one turn: a model that is a script asks for one tool, which needs an approval, takes 0.3 s, and pays (it
appends a line to a file). One process begins the turn and ends once it waits for the approval. Then:

- "once": one process delivers the approval.
- "twice at once": two processes deliver it at the same time, as after a double click, or two workers with one job.
- "once more, later": it is delivered, and when everything is over, it is delivered again.

The peers are installed into a virtual environment (--venv, default: a new one that is removed afterwards), from the
package index pip is configured for; they are no dependencies. Each is used as its documentation describes, with the
state of the waiting turn where it documents it: FlexChat, langchain and agno in SQLite; pydantic-ai's messages and
openai-agents' RunState as the JSON that the application keeps.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

PACKAGES = (
    "pydantic-ai-slim",
    "langchain",
    "langgraph-checkpoint-sqlite",
    "openai-agents",
    "agno",
    "sqlalchemy[asyncio]",
    "aiosqlite",
)
SCENARIOS = ("once", "twice at once", "once more, later")


def pay_into(folder):
    """Pay, as a service does: it takes a moment."""
    time.sleep(0.3)
    with (folder / "paid").open("a") as file:
        file.write("paid\n")
    return "paid"


# Each of these begins the turn, or delivers the approval; in a process of its own.


def flexchat(folder, begins):
    from flexchat import FlexChat, FlexChatError, Reply, tool
    from flexchat_sqlite.conversations import SqliteConversations
    from flexchat_testing import ScriptedProvider, calls, says

    @tool(approve=True)
    def pay(amount: int) -> str:
        """Pay."""
        return pay_into(folder)

    def reply(messages, options):
        return says("Done.") if messages[-1].role == "tool" else calls(("pay", {"amount": 10}))

    async def turn():
        config = {
            "llms": {"it": {"provider": "scripted"}},
            "responses": [{"llm": "it", "model": "m", "tools": {"enabled": True}}],
            "questions": {"expires": "1h"},
        }
        chat = FlexChat.from_config(config, tools=[pay], providers={"it": ScriptedProvider([reply], repeat=True)})
        chat.keep_in(SqliteConversations(folder / "kept.db"))
        if begins:
            await chat.respond("Pay.", conversation="c")
        else:
            (asked,) = await chat.pending(tenant="default", states=("open", "replied"))
            try:
                handle = await chat.answer(asked.id, Reply(action="accept"), by="ann", tenant="default")
                if handle is not None:
                    await handle.result()
            except FlexChatError as error:
                print(f"refused: {error}", file=sys.stderr)
        await chat.conversations.store.aclose()
        await chat.aclose()

    asyncio.run(turn())


def pydantic_ai(folder, begins):
    from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def reply(messages, info):
        if any(part.part_kind == "tool-return" for part in messages[-1].parts):
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart("pay", {"amount": 10}, tool_call_id="c1")])

    agent = Agent(FunctionModel(reply), output_type=[str, DeferredToolRequests])

    @agent.tool_plain(requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        return pay_into(folder)

    kept = folder / "messages.json"
    if begins:
        kept.write_bytes(agent.run_sync("Pay.").all_messages_json())
    else:
        history = ModelMessagesTypeAdapter.validate_json(kept.read_bytes())
        results = DeferredToolResults(approvals={"c1": True})
        result = agent.run_sync(message_history=history, deferred_tool_results=results)
        kept.write_bytes(result.all_messages_json())


def langchain(folder, begins):
    import sqlite3

    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.types import Command

    class Script(FakeMessagesListChatModel):
        def bind_tools(self, tools, **rest):
            return self

        def _generate(self, messages, *rest, **named):
            call = {"name": "pay", "args": {"amount": 10}, "id": "c1"}
            done = messages[-1].type == "tool"
            message = AIMessage("Done.") if done else AIMessage("", tool_calls=[call])
            return ChatResult(generations=[ChatGeneration(message=message)])

    def pay(amount: int) -> str:
        """Pay."""
        return pay_into(folder)

    saver = SqliteSaver(sqlite3.connect(folder / "checkpoints.db", check_same_thread=False))
    middleware = [HumanInTheLoopMiddleware(interrupt_on={"pay": True})]
    agent = create_agent(Script(responses=[]), [pay], checkpointer=saver, middleware=middleware)
    approved = Command(resume={"decisions": [{"type": "approve"}]})
    begun = {"messages": [("user", "Pay.")]}
    agent.invoke(begun if begins else approved, {"configurable": {"thread_id": "it"}}, durability="sync")


def openai_agents(folder, begins):
    from agents import Agent, Model, ModelResponse, Runner, RunState, Usage, function_tool, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)

    class Script(Model):
        async def get_response(self, system_instructions, input, *rest, **named):
            if isinstance(input, list) and any(item.get("type") == "function_call_output" for item in input):
                text = ResponseOutputText(annotations=[], text="Done.", type="output_text")
                output = ResponseOutputMessage(
                    id="m", content=[text], role="assistant", status="completed", type="message"
                )
            else:
                output = ResponseFunctionToolCall(
                    arguments='{"amount": 10}', call_id="c1", name="pay", type="function_call"
                )
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, *rest, **named):
            raise NotImplementedError

    @function_tool(needs_approval=True)
    async def pay(amount: int) -> str:
        """Pay."""
        return pay_into(folder)

    agent = Agent(name="it", model=Script(), tools=[pay])
    kept = folder / "state.json"

    async def turn():
        if begins:
            result = await Runner.run(agent, "Pay.")
        else:
            state = await RunState.from_string(agent, kept.read_text())
            for waiting in state.get_interruptions():
                state.approve(waiting)
            result = await Runner.run(agent, state)
        kept.write_text(result.to_state().to_string())

    asyncio.run(turn())


def agno(folder, begins):
    from agno.agent import Agent
    from agno.db.sqlite import SqliteDb
    from agno.models.base import Model
    from agno.models.response import ModelResponse
    from agno.tools import tool

    class Script(Model):
        def invoke(self, *rest, messages=(), **named):
            if any(message.role == "tool" for message in messages):
                return ModelResponse(role="assistant", content="Done.")
            function = {"name": "pay", "arguments": json.dumps({"amount": 10})}
            return ModelResponse(role="assistant", tool_calls=[{"id": "c1", "type": "function", "function": function}])

        ainvoke = invoke_stream = ainvoke_stream = invoke

        def _parse_provider_response(self, response, **named):
            return response

        def _parse_provider_response_delta(self, response):
            return response

    @tool(requires_confirmation=True)
    def pay(amount: int) -> str:
        """Pay."""
        return pay_into(folder)

    db = SqliteDb(db_file=str(folder / "agno.db"))
    agent = Agent(model=Script(id="script"), tools=[pay], db=db, session_id="it", telemetry=False)
    if begins:
        (folder / "run").write_text(agent.run("Pay.").run_id)
    else:
        run = agent.get_run_output((folder / "run").read_text(), session_id="it")
        for requirement in run.active_requirements:
            requirement.confirm()
        agent.continue_run(run_id=run.run_id, session_id="it", requirements=run.requirements)


KINDS = {
    "FlexChat": flexchat,
    "pydantic-ai": pydantic_ai,
    "langchain": langchain,
    "openai-agents": openai_agents,
    "agno": agno,
}


def start(who, python, folder, *, begins=False):
    """Start a process that begins the turn, or delivers the approval."""
    env = {**os.environ, "PYTHONWARNINGS": "ignore", "OPENAI_API_KEY": "none", "AGNO_TELEMETRY": "false"}
    command = [python, __file__, "--work", who, "--folder", str(folder), *(["--begins"] if begins else [])]
    with (folder / "said").open("a") as said:
        return subprocess.Popen(command, env=env, stdout=said, stderr=said)


def one(who, python, scenario):
    """Return how often one run paid."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if start(who, python, folder, begins=True).wait(120):
            sys.exit(f"{who} failed:\n{(folder / 'said').read_text()}")
        if (folder / "paid").exists():
            sys.exit(f"{who} has paid without an approval")
        together = [start(who, python, folder) for _ in range(2 if scenario == "twice at once" else 1)]
        for process in together:
            process.wait(120)
        if scenario == "once more, later":
            start(who, python, folder).wait(120)
        if not (folder / "paid").exists():
            print((folder / "said").read_text(), file=sys.stderr)
            return 0
        return (folder / "paid").read_text().count("paid")


def installed(folder):
    """Install the peers, and return the environment's Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return python


def version(who, python):
    """Return the version of a contestant's package."""
    name = {"FlexChat": "flexchat-core", "pydantic-ai": "pydantic-ai-slim"}.get(who, who)
    code = f"import importlib.metadata as m; print(m.version({name!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--venv", type=Path, help="where the peers are installed, or are to be")
    parser.add_argument("--only", choices=KINDS, help="one contestant")
    parser.add_argument("--work", choices=KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--begins", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return KINDS[args.work](args.folder, args.begins)
    with contextlib.ExitStack() as stack:
        peers = installed(args.venv or Path(stack.enter_context(tempfile.TemporaryDirectory())))
        print(f"payments per run, {args.runs} runs each\n")
        print(f"| {'approval delivered':22} | {' | '.join(SCENARIOS)} |")
        print(f"|---|{'---|' * len(SCENARIOS)}")
        for who in [args.only] if args.only else KINDS:
            python = sys.executable if who == "FlexChat" else peers
            cells = []
            for scenario in SCENARIOS:
                paid = sorted({one(who, python, scenario) for _ in range(args.runs)})
                cells.append(" or ".join(map(str, paid)))
            print(f"| {who + ' ' + version(who, python):22} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
