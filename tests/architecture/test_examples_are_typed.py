"""Type checkers accept the Python that the pages show, as strictly as they can; mypy runs once over all of it."""

import ast
import importlib.util
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PARTS_OF_FILES = {"writing-a-handler.md", "writing-a-provider.md", "writing-a-store.md", "writing-a-tool-source.md"}
"""Pages that quote files of packages, which ``flexchat new`` writes and whose own tests check."""

RESPOND = """
from dataclasses import dataclass
from typing import Any, TypedDict

import attrs
from flexchat import ChatRequest, ChatResponse, FlexChat, SyncFlexChat, Turn, UserMessage
from pydantic import BaseModel
from typing_extensions import assert_type


@dataclass
class Weather:
    celsius: float


@attrs.frozen
class Wind:
    speed: float


class Sky(TypedDict):
    clouds: int


class Rain(BaseModel):
    chance: float


async def ask(chat: FlexChat, sync: SyncFlexChat, request: ChatRequest) -> Turn:
    turn = await chat.respond("?", response_format=Weather, temperature=0, history=[UserMessage("x")])
    assert_type(turn, Turn[Weather])
    assert_type(turn.response, ChatResponse[Weather])
    assert_type(turn.response.parsed, Weather)
    assert_type(sync.respond("?", response_format=Wind).response.parsed, Wind)
    assert_type(sync.respond("?", response_format=Sky).response.parsed, Sky)
    assert_type(sync.respond("?", response_format=Rain).response.parsed, Rain)
    assert_type(sync.respond("?", response_format=list[Rain]).response.parsed, list[Rain])
    assert_type(sync.respond("?", response_format={"type": "object"}).response.parsed, Any)
    assert_type(await chat.respond(request), Turn[Any])
    assert_type(Turn.from_dict({}), Turn[Any])
    sync.respond("?", temprature=0)  # type: ignore[call-overload]
    sync.respond("?", temperature="hot")  # type: ignore[call-overload]
    sync.respond("?", approve="maybe")  # type: ignore[call-overload]
    return turn
"""


def module_of(page: Path) -> str:
    """Return the examples of a page as one module; where they await at the top, as one coroutine function."""
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    code = "\n\n".join(block for block in blocks if not is_missing(block))
    try:
        compile(code, str(page), "exec")
    except SyntaxError:
        compile(code, str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        return f"async def page() -> None:\n{textwrap.indent(code, '    ')}"
    return code


def is_missing(block: str) -> bool:
    """Return whether an example needs a framework that is not installed here."""
    return "fastapi" in block and importlib.util.find_spec("fastapi") is None


def test_mypy_accepts_every_example(tmp_path):
    """README, every page of docs, the packages' own; and it infers what respond returns."""
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("plugins/*/README.md")]
    (tmp_path / "respond.py").write_text(RESPOND)
    for page in pages:
        if page.name not in PARTS_OF_FILES and "```python" in page.read_text():
            name = re.sub(r"\W", "_", str(page.relative_to(ROOT)))
            (tmp_path / f"{name}.py").write_text(module_of(page))

    strict = ["--strict", "--disable-error-code=no-redef", "--explicit-package-bases", "--no-error-summary"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *strict, f"--cache-dir={ROOT}/.mypy_cache/examples", *tmp_path.glob("*.py")],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )

    assert (done.stdout, done.stderr) == ("", "")
