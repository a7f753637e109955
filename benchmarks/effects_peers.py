"""The same faults for FlexChat, pydantic-ai with DBOS, and langgraph: how often does one payment happen?

    python benchmarks/effects_peers.py [--runs 10] [--venv FOLDER]

Each run is one turn: a model that is a script asks for one tool, which pays (it appends a line to a file) and
takes no key.

- "killed": the process dies (SIGKILL) when the tool has paid, before that is recorded; then the turn is taken up.
- "killed, two resume": the same, and two processes take it up at once.
- "in time": nobody dies.

The peers are installed into a virtual environment (--venv, default: a new one that is removed afterwards), from the
package index pip is configured for; they are no dependencies. Each is used as its documentation says: DBOS with the
tool as a step and SQLite as the system database; langgraph with SQLite checkpoints and durability "sync".
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PACKAGES = ("pydantic-ai-slim[dbos]", "langgraph", "langgraph-checkpoint-sqlite", "langchain")
SCENARIOS = ("in time", "killed", "killed, two resume")
WHO = ("FlexChat", "pydantic-ai + DBOS", "langgraph")


def pay_into(folder):
    """Pay; die afterwards if this is the process that is to die."""
    with (folder / "paid").open("a") as file:
        file.write("paid\n")
    if os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"


# Each of these begins the turn, or takes it up; in a process of its own.


def flexchat(folder, begins):
    from flexchat import FlexChat, FlexChatError, tool
    from flexchat_sqlite.conversations import SqliteConversations
    from flexchat_testing import ScriptedProvider, calls, says

    @tool
    def pay() -> str:
        """Pay."""
        return pay_into(folder)

    def reply(messages, options):
        return says("Done.") if messages[-1].role == "tool" else calls(("pay", {}))

    async def turn():
        config = {
            "llms": {"it": {"provider": "scripted"}},
            "responses": [{"llm": "it", "model": "m", "tools": {"enabled": True}}],
            "tools": {"effects": {"lease_s": 1}},
        }
        model = ScriptedProvider([reply], repeat=True)
        chat = FlexChat.from_config(config, tools=[pay], providers={"it": model})
        chat.keep_in(SqliteConversations(folder / "kept.db"))
        if begins:
            await chat.respond("Pay.", conversation="c")
        # Until the lease of the dead process has expired.
        while any(turn.state == "running" for turn in await chat.turns()):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        for waiting in await chat.turns(states=["interrupted"]):
            try:
                await chat.resume(waiting.id)
            except FlexChatError as error:
                print(f"not resumed here: {error}", file=sys.stderr)
        for effect in await chat.effects():
            (folder / "told").write_text(effect.state)
        await chat.conversations.store.aclose()
        await chat.aclose()

    asyncio.run(turn())


def dbos(folder, begins):
    from dbos import DBOS, SetWorkflowID
    from pydantic_ai import Agent
    from pydantic_ai.durable_exec.dbos import DBOSDurability
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def reply(messages, info):
        if any(part.part_kind == "tool-return" for part in messages[-1].parts):
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart("pay", {})])

    DBOS(config={"name": "payments", "system_database_url": f"sqlite:///{folder}/dbos.db", "run_admin_server": False})
    agent = Agent(FunctionModel(reply), name="it", capabilities=[DBOSDurability()])

    @agent.tool_plain
    @DBOS.step()
    async def pay() -> str:
        """Pay."""
        return pay_into(folder)

    @DBOS.workflow()
    async def answer(question: str) -> str:
        return (await agent.run(question)).output

    async def turn():
        DBOS.launch()  # takes up what this executor left
        if begins:
            with SetWorkflowID("it"):
                await answer("Pay.")
        else:
            handle = await DBOS.retrieve_workflow_async("it")
            await handle.get_result()
        DBOS.destroy()

    asyncio.run(turn())


def langgraph(folder, begins):
    import operator
    import sqlite3
    from typing import Annotated, TypedDict

    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        messages: Annotated[list, operator.add]

    graph = StateGraph(State)
    graph.add_node("model", lambda state: {"messages": ["Done." if "paid" in state["messages"] else "call pay"]})
    graph.add_node("tools", lambda state: {"messages": [pay_into(folder)]})
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: END if state["messages"][-1] == "Done." else "tools")
    graph.add_edge("tools", "model")
    saver = SqliteSaver(sqlite3.connect(folder / "checkpoints.db", check_same_thread=False))
    begun = {"messages": ["Pay."]} if begins else None
    graph.compile(checkpointer=saver).invoke(begun, {"configurable": {"thread_id": "it"}}, durability="sync")


KINDS = dict(zip(WHO, (flexchat, dbos, langgraph), strict=True))


def start(who, python, folder, *, begins, dies=False):
    """Start a process that begins the turn, or takes it up."""
    env = {**os.environ, "DBOS__VMID": "it", "PYTHONWARNINGS": "ignore"}
    command = [python, __file__, "--work", who, "--folder", str(folder), *(["--begins"] if begins else [])]
    with (folder / "said").open("a") as said:
        return subprocess.Popen(command, env={**env, "DIES": "1"} if dies else env, stdout=said, stderr=said)


def one(who, python, scenario):
    """Return how often one run paid, and what it says of the payment."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if scenario == "in time":
            if start(who, python, folder, begins=True).wait(120):
                sys.exit(f"{who} failed:\n{(folder / 'said').read_text()}")
        else:
            start(who, python, folder, begins=True, dies=True).wait(120)
            others = [start(who, python, folder, begins=False) for _ in range(2 if "two" in scenario else 1)]
            for other in others:
                try:
                    other.wait(60)
                except subprocess.TimeoutExpired:
                    other.kill()
        paid = (folder / "paid").read_text().count("paid") if (folder / "paid").exists() else 0
        told = folder / "told"
        return paid, told.read_text() if told.exists() else ""


def installed(folder):
    """Install the peers, and return the environment's Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return python


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--venv", type=Path, help="where the peers are installed, or are to be")
    parser.add_argument("--work", choices=WHO, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--begins", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return KINDS[args.work](args.folder, args.begins)
    with tempfile.TemporaryDirectory() as folder:
        peers = installed(args.venv or Path(folder))
        print(f"payments per run, {args.runs} runs each\n")
        print(f"| {'':20} | {' | '.join(SCENARIOS)} |")
        print(f"|---|{'---|' * len(SCENARIOS)}")
        for who in WHO:
            cells = []
            for scenario in SCENARIOS:
                runs = [one(who, sys.executable if who == "FlexChat" else peers, scenario) for _ in range(args.runs)]
                paid = sorted({count for count, _ in runs})
                told = sorted({state for _, state in runs if state})
                cells.append(" or ".join(map(str, paid)) + (f" (listed as {', '.join(told)})" if told else ""))
            print(f"| {who:20} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
