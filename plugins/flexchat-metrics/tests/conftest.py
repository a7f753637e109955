"""A store with a journal, and chats whose turns are counted."""

import pytest
from flexchat import FlexChat, tool
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider, says


@pytest.fixture
async def store():
    kept = SqliteConversations(":memory:")
    yield kept
    await kept.aclose()


@pytest.fixture
def open_chat(tmp_path):
    """Return a function that makes a chat with one tool, whose model gives these answers."""

    @tool(effect="read")
    def look(at: str = "sky", key: str = "") -> str:
        """Look at something."""
        if at == "sun":
            raise ValueError("it is too bright")
        return "blue"

    def make(*replies, hooks=(), plugins=None, **config):
        tables = {
            "llms": {"bot": {"provider": "scripted"}},
            "responses": [{"llm": "bot", "model": "m", "name": "all", "tools": {"enabled": True}}],
            "conversations": {"path": str(tmp_path / "kept.db")},
            "stats": {},
            **config,
        }
        provider = ScriptedProvider([*replies, says("Done.")], repeat=True)
        return FlexChat.from_config(tables, tools=[look], providers={"bot": provider}, hooks=hooks, plugins=plugins)

    return make
