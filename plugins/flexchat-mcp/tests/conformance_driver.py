"""The client that the official conformance suite starts: FlexChat's command line, and a browser that needs no person.

The suite appends a server's URL, and says in the environment which scenario it is. Nothing of FlexChat knows the suite.
"""

import io
import json
import os
import sys
from pathlib import Path

from flexchat_cli.main import main

VISIT = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()"


def configured(url: str, scenario: str, context: dict, version: str) -> None:
    """Write a configuration with the one server."""
    table = {"name": "server", "url": url}
    if version < "2026":
        table["protocol"] = "handshake"
    if scenario.startswith("auth/"):
        # The suite serves no document at this address: it is the id that counts.
        table["auth"] = {"oauth": True, "client_metadata_url": "https://conformance-test.local/client-metadata.json"}
        table["auth"] |= {key: context[key] for key in ("client_id", "client_secret") if key in context}
    rule = {"llm": "bot", "model": "any", "tools": {"allowed_tools": ["server/*"]}}
    config = {
        "llms": {"bot": {"provider": "rehearsal"}},
        "responses": [rule],
        "tools": {"mcp": [table]},
        "network": {"allow": ["127.0.0.1", "localhost"]},
    }
    Path("flexchat.json").write_text(json.dumps(config))


def run(*words: str) -> str:
    """Run a command, and return what it prints."""
    real, sys.stdout = sys.stdout, io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    try:
        status = main([*words])
        sys.stdout.seek(0)
        out = sys.stdout.read()
    finally:
        sys.stdout = real
    print(*words, "=>", status, out)  # the suite keeps it
    return out


def example(schema: dict) -> object:
    """Return a value that fits a simple schema."""
    if "default" in schema or "enum" in schema:
        return schema["default"] if "default" in schema else schema["enum"][0]
    values = {"integer": 5, "number": 5, "string": "test", "boolean": True, "array": []}
    return values.get(schema.get("type"), {})


def play(url: str) -> None:
    """Sign in if need be, list the tools, and call each of them."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    scenario, version = os.environ["MCP_CONFORMANCE_SCENARIO"], os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    configured(url, scenario, context, version)
    if scenario.startswith("auth/"):
        run("mcp", "login", "server")
    (found,) = json.loads(run("mcp", "inspect", "server", "--json"))
    calls = context.get("toolCalls")
    if calls is None:
        schemas = {tool["name"]: tool["definition"]["inputSchema"] for tool in found.get("tools", ())}
        calls = [
            {"name": name, "arguments": {key: example(value) for key, value in schema.get("properties", {}).items()}}
            for name, schema in schemas.items()
        ]
    for call in calls:
        run("mcp", "call", "server", call["name"], json.dumps(call.get("arguments", {})), "--defaults")


if __name__ == "__main__":
    os.environ["BROWSER"] = f'{sys.executable} -c "{VISIT}" %s'
    play(sys.argv[-1])
