"""docs/coming-from.md: every line that is ours works, on models that need no network."""

import asyncio
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import flexchat
import pytest
from flexchat import FlexChat, SyncFlexChat, TextDelta, ToolContext, ToolError, tool
from flexchat_cli.answering import MODEL

PAGE = Path(__file__).parents[3] / "docs" / "coming-from.md"

CONFIG = """
[conversations]
path = "conversations.db"

[stores.docs]
provider = "sqlite"
path = "documents.db"

[llms.main]
provider = "scripted"
repeat = true
default_model = "any"
replies = [{{ text = '''{reply}''' }}]

[[responses]]
llm = "main"

[prompts.summarise]
prompt = "Summarise in {{{{language}}}}: {{{{message}}}}"
"""

REPLIES = {
    "--schema ": '{"name": "Rex", "age": 3}',
    "--schema-multi": '{"items": [{"name": "Rex", "age": 3}]}',
    "-x": "Here it is:\n```python\nx[::-1]\n```\nDone.",
}


def ours(section: str) -> list[tuple[str, list[str]]]:
    """Return the tasks of a section's table, each with the code in its last column."""
    text = PAGE.read_text("utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| ")][1:]
    return [(row[0].strip(), [c.replace("\\|", "|") for c in re.findall(r"`([^`]+ [^`]+)`", row[2])]) for row in rows]


@pytest.mark.parametrize(
    ("task", "lines"), [row for row in ours("llm") if row[1]], ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_line_for_the_shell(run, task, lines, tmp_path, monkeypatch):
    (tmp_path / "myfile.py").write_text("print(1)\n")
    (tmp_path / "notes.md").write_text("# Keys\n\nThe key is under the mat.\n")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    (tmp_path / "report.txt").write_text("It went well.\n")
    (tmp_path / "prompts.jsonl").write_text('"Hello"\n"And you?"\n')
    (tmp_path / "trains.py").write_text("def next_train() -> str:\n    'Say when it leaves.'\n    return '12:05'\n")
    reply = next((reply for word, reply in REPLIES.items() if word in " ".join(lines)), "Hello!")
    (tmp_path / "flexchat.toml").write_text(CONFIG.format(reply=reply))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-any")
    assert run("ask", "pelican").status == 0
    done = [try_out(line, run, tmp_path) for line in lines]

    assert done, task
    assert "-x" not in " ".join(lines) or done == ["x[::-1]\n"]
    sys.modules.pop("trains", None)


def try_out(line: str, run: Any, folder: Path) -> str:
    """Run a line and return its output; services are replaced by one that needs no network, but for given addresses."""
    piped, _, command = line.rpartition(" | ")
    words = shlex.split(command)
    if words[:2] == ["pip", "install"]:
        assert all((PAGE.parents[1] / name / "pyproject.toml").exists() for name in words[2:])
        return ""
    if words[0] == "export":
        assert words[1].startswith(f"{MODEL}=")
        return ""
    assert words[0] == "flexchat"
    for sign in ("<", ">"):
        if sign in words:
            at = words.index(sign)
            piped = f"cat {words[at + 1]}" if sign == "<" else piped
            del words[at : at + 2]
    at_an_address = "-o" in words and words[words.index("-o") + 1].startswith("base_url")
    if "-m" in words and not at_an_address:
        words[words.index("-m") + 1] = "main"
    typed = {"chat": "Hello\n", "keys": "sk-anything\n"}.get(words[1], "")
    ran = run(*words[1:], stdin=(folder / piped.split()[1]).read_text() if piped else typed)

    assert (ran.status, "nothing listens" in ran.err) == ((1, True) if at_an_address else (0, False)), ran.err
    return ran.out


@dataclass
class City:
    """What is asked for."""

    name: str


@dataclass
class Deps:
    """What tools need."""

    user: str


def next_train(context: ToolContext, town: str = "Rome") -> str:
    """Say when the next train leaves."""
    assert context.context is None or context.context.user == "Ada"
    return "12:05"


def test_the_lines_for_python(tmp_path):
    """In their order, as a script would have them; a model of a service is replaced by one that answers by itself."""
    names: dict[str, Any] = {**vars(flexchat), "SyncFlexChat": SyncFlexChat, "TextDelta": TextDelta}
    names |= {"City": City, "Deps": Deps, "next_train": next_train, "tool": tool, "ToolError": ToolError}
    config = {
        "llms": {"main": {"provider": "scripted", "repeat": True, "replies": [{"text": '{"name": "Rome"}'}]}},
        "responses": [{"llm": "main", "model": "any", "prompt": "For {{user}}.", "tools": {"enabled": True}}],
        "variables": {"user": "nobody"},
        "conversations": {"path": str(tmp_path / "conversations.db")},
    }
    script = '"scripted/any", repeat=True, replies=[{"text": "Hi."}]'
    chats = []
    with SyncFlexChat.from_config(config, tools=[next_train]) as chat:
        for task, lines in ours("pydantic-ai"):
            for line in lines:
                if "(" not in line:
                    continue
                if line.startswith("await"):
                    asyncio.run(awaited(line))
                    continue
                names["chat"] = chat
                code = line.replace('"openai/gpt-5.2"', script)
                exec(code if re.match(r"\w+ = |for ", code) else f"made = {code}", names)
                for made in (names["chat"], names.pop("made", None)):
                    if isinstance(made, SyncFlexChat) and made is not chat:
                        made.close()
                        chats.append(task)

    assert chats == ["make an agent", "test without a model"]
    assert names["turn"].content == '{"name": "Rome"}'
    assert names["city"] == City("Rome")


async def awaited(line: str) -> None:
    """Run a line that awaits."""
    async with FlexChat.from_model("scripted/any", replies=[{"text": "Hi."}]) as chat:
        exec(f"async def line(flexchat):\n    return {line}", names := {})
        assert (await names["line"](chat)).content == "Hi."
