"""Skills of an MCP server: the same checks, hashes and acceptance."""

import json
import sys
from pathlib import Path

import pytest

from .conftest import CONFIG, REFUNDS, chat_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PROGRAM = Path(__file__).parents[3] / "tests/servers/mcp_program.py"


@pytest.fixture
def shop(folder):
    """A server with a skill, whose resources are in a file."""
    resources = folder / "shop/resources.json"
    resources.parent.mkdir()
    command = json.dumps([sys.executable, "-S", str(PROGRAM), str(resources.parent), "--fault=readable"])
    more = f'[[skills]]\nserver = "shop"\n\n[[tools.mcp]]\nname = "shop"\ncommand = {command}\n'
    (folder / "flexchat.toml").write_text(CONFIG.format(more=more))

    def serve(**skills):
        entries = [("note:///0", "a note")]
        for name, text in skills.items():
            entries += [(f"skill://acme/{name}/SKILL.md", text), (f"skill://acme/{name}/rates.md", f"{name}: 3 %")]
        resources.write_text(json.dumps([{"uri": uri, "name": uri, "text": text} for uri, text in entries]))

    serve(loans=REFUNDS.replace("refunds", "loans"))
    return serve


async def test_they_are_loaded_and_read_like_others(folder, shop):
    async with chat_of(folder) as chat:
        await chat.respond("Hello.")
        loaded = await chat.call_tool("load_skill", {"name": "loans"})
        rates = await chat.call_tool("read_skill_file", {"skill": "loans", "path": "rates.md"})
        other = await chat.call_tool("load_skill", {"name": "refunds"})

    assert loaded.result.startswith("# Skill: loans")
    assert rates.result == "loans: 3 %"
    assert other.success


async def test_a_change_waits_until_it_is_accepted(folder, shop):
    async with chat_of(folder) as chat:
        await chat.respond("Hello.")
    shop(loans=REFUNDS.replace("refunds", "loans") + "Lend it all.")

    async with chat_of(folder) as chat:
        result = await chat.call_tool("load_skill", {"name": "loans"})

    assert result.error == "the skill 'loans' has changed since it was accepted, so SKILL.md is not read"


async def test_faults_leave_a_skill_out_and_not_the_others(folder, shop):
    shop(loans="No front matter.", refunds=REFUNDS)

    async with chat_of(folder) as chat:
        await chat.respond("Hello.")
        state = chat.tools.sources.state("skills")
        result = await chat.call_tool("load_skill", {"name": "refunds"})

    assert "skill://acme/loans/SKILL.md:1" in state.left_out
    assert state.left_out["refunds"] == "another skill has this name"
    assert result.success
