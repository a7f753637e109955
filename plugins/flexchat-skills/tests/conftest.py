"""A folder of skills, and chats that have them."""

from pathlib import Path

import pytest
from flexchat import FlexChat
from flexchat_testing import ScriptedProvider, says

CONFIG = """
[llms.bot]
provider = "scripted"

[[skills]]
folder = "skills"

[[tools.registry]]
name = "calculator"

[[tools.registry]]
name = "get_current_datetime"

{more}

[[responses]]
llm = "bot"
model = "m"
tools = {{ allowed_tools = ["skills/*", "calculator", "get_current_datetime"] }}
"""
REFUNDS = """---
name: refunds
description: Refunds an order. Use it when someone wants money back.
license: MIT
metadata:
  version: "1.0"
allowed-tools: calculator
---
# Refunds

Read references/policy.md first.
"""
REPORTS = """---
name: reports
description: >
  Writes a monthly
  report.
---
Be short.
"""


@pytest.fixture
def folder(tmp_path):
    """A config's folder with two skills in ``skills``."""
    write(tmp_path / "skills/refunds/SKILL.md", REFUNDS)
    write(tmp_path / "skills/refunds/references/policy.md", "At most 30 days.\n")
    write(tmp_path / "skills/reports/SKILL.md", REPORTS)
    (tmp_path / "flexchat.toml").write_text(CONFIG.format(more=""))
    return tmp_path


def write(path: Path, content: str | bytes) -> None:
    """Write a file, and the folders around it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def chat_of(folder, *replies):
    """Make a chat of the config in a folder; its model is ``chat.model``."""
    model = ScriptedProvider(replies or [says("Hello.")])
    chat = FlexChat.from_config(folder / "flexchat.toml", providers={"bot": model})
    chat.model = model
    return chat
