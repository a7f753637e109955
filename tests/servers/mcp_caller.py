"""A program that calls a tool for each line it reads, and writes what came of it: python mcp_caller.py CONFIG TOOL."""

import asyncio
import json
import sys

from flexchat import FlexChat


async def main(config: str, tool: str) -> None:
    async with FlexChat.from_config(config) as chat:
        print("ready", flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            found = await chat.call_tool(tool, {})
            why = "; ".join([found.error or "", *chat.tools.sources.missing(["*"])])
            print(json.dumps({"result": found.result, "why": why}), flush=True)


asyncio.run(main(*sys.argv[1:]))
