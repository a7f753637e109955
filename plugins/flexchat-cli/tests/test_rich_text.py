"""What rich shows, on a terminal that is emulated: pyte keeps the screen as a person would see it."""

import io

import pyte
import pytest
from flexchat_cli import rich_text
from flexchat_cli.rich_text import MarkdownWriter, ProgressLine, print_table
from hypothesis import example, given
from hypothesis import strategies as st

WIDTH, HEIGHT = 60, 12


class Screen(io.StringIO):
    """A terminal of 60 columns and 12 lines; ``text`` is what it shows and what has left it at the top."""

    def __init__(self):
        super().__init__()
        self._screen = pyte.HistoryScreen(WIDTH, HEIGHT, history=100_000)
        self._screen.set_mode(pyte.modes.LNM)
        self._stream = pyte.Stream(self._screen)

    def isatty(self):
        return True

    def write(self, text):
        self._stream.feed(text)
        return len(text)

    @property
    def text(self):
        gone = ["".join(line[column].data for column in range(WIDTH)) for line in self._screen.history.top]
        return "\n".join(line.rstrip() for line in [*gone, *self._screen.display]).rstrip()

    @property
    def has_cursor(self):
        return not self._screen.cursor.hidden


@pytest.fixture(autouse=True)
def a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("LINES", str(HEIGHT))
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(rich_text, "_MIN_WAIT_S", 0)
    monkeypatch.setattr(rich_text, "_MAX_SHARE_OF_TIME", 1e9)


def shown(*pieces):
    screen = Screen()
    writer = MarkdownWriter(screen)
    for piece in pieces:
        writer.write(piece)
    writer.end()
    assert screen.has_cursor
    return screen.text


ANSWER = """# Trains

Take the **fast** one, see [the plan](https://example.org/plan):

- 8:04
- 9:04

```python
def f(x):
    return x
```

| from | to |
|------|----|
| Bern | Thun |

The end."""


def test_markdown_is_shown_as_it_is_meant():
    assert shown(ANSWER) == (
        "Trains\n\nTake the fast one, see the plan (https://example.org/plan):\n\n • 8:04\n • 9:04\n\n"
        "def f(x):\n    return x\n\nfrom  to\n──────────\nBern  Thun\n\nThe end."
    )


BLOCKS = st.sampled_from(
    [
        "# A title\n\n",
        "Some words.\n",
        "more *words*\n\n",
        "- one\n- two\n",
        "1. one\n\n   deeper\n",
        "```\ncode\n\n  more\n```\n",
        "```python\ndef f(): ...\n",
        "> said\n",
        "---\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "\n\n",
        "日本語 and 🎉\n\n",
        "<b>no HTML</b>\n\n",
        "x" * 200 + "\n\n",
        "word " * 300 + "\n\n",
        "[red]not markup[/]\n\n",
    ]
)


@given(st.lists(BLOCKS, max_size=8).map("".join) | st.text(max_size=60), st.lists(st.integers(1, 40), max_size=60))
@example("a\n\nb", [1] * 4)
@example("line\n" * 40 + "\n- x\n- y\n", [7] * 30)
def test_pieces_leave_what_the_whole_answer_leaves(text, sizes):
    """However an answer is cut into pieces, and however high its blocks are, the same stands on the terminal."""
    text = "".join(character for character in text if character == "\n" or character.isprintable())
    pieces, start = [], 0
    for size in sizes:
        pieces.append(text[start : start + size])
        start += size
    pieces.append(text[start:])

    assert shown(*pieces) == shown(text)


def test_the_last_block_is_seen_before_it_is_complete():
    screen = Screen()
    writer = MarkdownWriter(screen)
    writer.write("A first\n\n- one\n- t")

    assert screen.text == "A first\n\n • one\n • t"
    writer.write("wo\n" + "".join(f"- {number}\n" for number in range(3, 40)))
    assert screen.text.endswith("• 39")
    assert len(screen.text.split("\n")) <= HEIGHT + 2

    writer.end()
    assert len(screen.text.split("\n")) == 2 + 39


def test_cells_are_texts_and_the_last_column_wraps():
    screen = Screen()

    print_table(screen, ["id", "what"], [["a1", "word " * 20], ["b2", "[bold]x[/] :smile:"]])

    lines = screen.text.split("\n")
    assert lines[0].split() == ["id", "what"]
    assert lines[2].startswith("a1   word word")
    assert lines[3].startswith("     word")
    assert lines[-1] == "b2   [bold]x[/] :smile:"


def test_progress_is_one_line_with_numbers_and_a_bar():
    screen = Screen()
    line = ProgressLine(screen)

    screen.write(line.text(3, 10, "answered, 1 failed"))

    assert screen.text.startswith("━")
    assert " 3/10 answered, 1 failed" in screen.text
    assert "\n" not in screen.text
