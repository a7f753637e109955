"""What is shown while files are read."""

import asyncio
import sys

from flexchat_rag.commands import add


def test_a_bar_is_shown_on_a_terminal_only(run, monkeypatch):
    """Elsewhere a line now and then, and each failure at once."""
    assert run("rag", "add", "docs").err == ""
    monkeypatch.setattr(add, "SECONDS_BETWEEN_LINES", 0)
    assert "1 of 2 files" in run("rag", "add", "docs", "--chunk-size", "500").err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert "files" in run("rag", "add", "docs", "--chunk-size", "600").err


async def test_progress_is_shown_before_the_first_file_is_done(monkeypatch, tmp_path):
    """While a model is loaded, or one large file is read."""
    told, tell = [], asyncio.Event()

    class Terminal:
        def say(self, line):
            told.append(line)
            tell.set()

    class Slow:
        async def sources(self, **_):
            return []

        async def add(self, documents, *, collection, source):
            await tell.wait()
            return len(documents)

    monkeypatch.setattr(add, "SECONDS_BETWEEN_BEATS", 0)
    monkeypatch.setattr(add, "SECONDS_BEFORE_THE_FIRST_LINE", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    (tmp_path / "a.md").write_text("Text")
    report = await add.Progress(Terminal()).ingest(Slow(), [str(tmp_path / "a.md")], collection="c")
    assert report.added == 1
    assert told[0].startswith("none of 1 file yet; the first passages take longest where an embedding model")
