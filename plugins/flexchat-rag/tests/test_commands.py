"""flexchat rag …, as it is typed, with the store "sqlite"."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from flexchat.cli.main import main
from flexchat_rag.commands import progress
from flexchat_rag.commands.opening import spoken_seconds

CONFIG = """
[stores.{name}]
provider = "{provider}"
"""
MODEL = """
[llms.r]
provider = "rehearsal"

[[responses]]
llm = "r"
model = "rehearsal"
"""
SQLITE = 'path = "{name}.db"\nsearch = "keyword"\n'
GUIDE = "# Guide\n\n## Install\n\nRun the installer on Linux.\n\n## Use\n\nStart the engine.\n"


@attrs.frozen
class Ran:
    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a command line in a folder with a config, documents and a store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(progress, "SECONDS_BEFORE_THE_FIRST_LINE", 600)  # however slow this machine is just now
    for name in ("FLEXCHAT_CONFIG", "FLEXCHAT_BLOCK_PLUGINS", "FLEXCHAT_STRICT_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    configure("documents")
    Path("docs").mkdir()
    Path("docs/guide.md").write_text(GUIDE)
    Path("docs/notes.txt").write_text("Tea is served at five.")

    def call(*words, stdin="", terminal=False):
        typed = io.StringIO(stdin)
        typed.isatty = lambda: terminal
        monkeypatch.setattr(sys, "stdin", typed)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
        status = main(words)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return call


def configure(*names, provider="sqlite"):
    extra = SQLITE if provider == "sqlite" else ""
    stores = "".join((CONFIG + extra).format(name=name, provider=provider) for name in names)
    Path("flexchat.toml").write_text(stores + MODEL)


def data(ran):
    assert ran.status == 0, ran.err
    return json.loads(ran.out)


def test_files_are_added_and_found(run):
    """Scenario of every first user: add a folder, ask, see where it stands."""
    ran = run("rag", "add", "docs")
    assert ran.status == 0, ran.err
    assert ran.out.startswith("documents: 2 added; 3 passages in ")
    ran = run("rag", "query", "installer", "--top-k", "1")
    assert "1. Guide › Install" in ran.out
    assert "docs/guide.md, line 5" in ran.out
    assert "Run the installer on Linux." in ran.out
    (hit,) = data(run("rag", "query", "tea", "--json"))
    assert (hit["title"], hit["source"], hit["collection"]) == ("notes.txt", "docs/notes.txt", "documents")
    assert 0 <= hit["distance"] <= 2


def test_a_second_run_changes_nothing(run):
    """And says so; what changed is replaced, what is gone goes with --prune."""
    run("rag", "add", "docs")
    assert "2 unchanged; 0 passages" in run("rag", "add", "docs").out
    Path("docs/notes.txt").write_text("Tea is served at six.")
    os.remove("docs/guide.md")
    report = data(run("rag", "add", "docs", "--prune", "--json"))
    assert (report["changed"], report["removed"], report["passages"], report["stored"]) == (1, 1, 1, 1)
    assert [hit["text"] for hit in data(run("rag", "query", "tea", "--json"))] == ["Tea is served at six."]
    assert data(run("rag", "query", "installer", "--json")) == []


def test_a_failed_file_makes_the_status_1(run):
    """The others are stored, the reason is told."""
    Path("docs/a.txt").write_bytes(b"\0\1\2")
    ran = run("rag", "add", "docs", "nowhere")
    assert ran.status == 1
    assert "failed: docs/a.txt is no text: it holds binary data" in ran.err
    assert "failed: nowhere does not exist" in ran.err
    assert "2 added, 2 failed" in ran.out


def test_an_export_is_read_back_as_it_was(run):
    """Round trip: id, title, text, source and metadata."""
    Path("rows.csv").write_text("text,year\n" + "word " * 400 + ",2024\nshort,1.5\n")
    run("rag", "add", "docs", "rows.csv", "--collection", "one", "--metadata", "lang=en")
    ran = run("rag", "export", "--collection", "one", "--output", "out.jsonl")
    assert (ran.status, ran.out) == (0, "")
    assert run("rag", "add", "out.jsonl", "--collection", "two").status == 0
    first, second = (run("rag", "export", "--collection", name).out for name in ("one", "two"))
    assert first == second == Path("out.jsonl").read_text()
    assert {json.loads(line)["metadata"]["lang"] for line in first.splitlines()} == {"en"}
    assert [path.name for path in Path().glob("*out*")] == ["out.jsonl"]


def test_an_export_has_a_name_that_is_read_back(run):
    """Another ending would be read as something else."""
    run("rag", "add", "docs")
    ran = run("rag", "export", "--output", "out.txt")
    assert (ran.status, "jsonl" in ran.err) == (2, True)
    assert "cannot be written" in run("rag", "export", "--output", "docs/guide.md/where.jsonl").err


def test_collections_and_sources_are_listed(run):
    """With counts; a description and thresholds stay when more is added."""
    about = ("--description", "How to use it", "--match-threshold", "0.3", "--partial-threshold", "0.6")
    run("rag", "add", "docs", "--collection", "help", *about)
    run("rag", "add", "docs", "--collection", "help")
    assert run("rag", "list").out == "documents\n  help  (3 passages)  How to use it\n"
    (collection,) = data(run("rag", "list", "--json"))["documents"]
    assert (collection["match_threshold"], collection["partial_threshold"]) == (0.3, 0.6)
    assert (
        run("rag", "list", "--collection", "help").out == "docs/guide.md  (2 passages)\ndocs/notes.txt  (1 passage)\n"
    )
    sources = data(run("rag", "list", "--collection", "help", "--json"))
    assert [(source["name"], source["complete"]) for source in sources] == [
        ("docs/guide.md", True),
        ("docs/notes.txt", True),
    ]


def test_a_source_is_shown_in_its_order_and_a_document_by_its_id(run):
    """As rag list and --json name them."""
    run("rag", "add", "docs")
    shown = data(run("rag", "show", "docs/guide.md", "--json"))
    assert [document["title"] for document in shown] == ["Guide › Install", "Guide › Use"]
    ran = run("rag", "show", shown[1]["id"])
    assert ran.out.startswith(f"Guide › Use\ndocs/guide.md, line 9  [{shown[1]['id']}]\nStart the engine.")
    ran = run("rag", "show", "docs/gide.md")
    assert (ran.status, "neither a source nor an id" in ran.err) == (2, True)


def test_figures_are_counted(run):
    """What there is of what."""
    run("rag", "add", "docs")
    figures = data(run("rag", "stats", "--json"))["documents"]
    assert (figures["passages"], figures["sources"], figures["incomplete_sources"]) == (3, 2, 0)
    assert figures["characters"] == sum(
        map(len, ("Run the installer on Linux.Start the engine.Tea is served at five.",))
    )
    assert "passages" in run("rag", "stats").out


def test_what_is_deleted_is_asked_for(run):
    """On a terminal the number is shown first; elsewhere --yes is needed."""
    run("rag", "add", "docs")
    delete = ("rag", "delete", "--collection", "documents")
    assert "--yes" in run(*delete, "--all").err
    ran = run(*delete, "--source", "docs/guide.md", stdin="n\n", terminal=True)
    assert "delete 2 passages of 'documents'?" in ran.out
    assert "nothing was deleted" in ran.err
    assert "2 passages deleted" in run(*delete, "--source", "docs/guide.md", stdin="y\n", terminal=True).out
    assert data(run("rag", "stats", "--json"))["documents"]["passages"] == 1
    assert data(run(*delete, "--all", "--yes", "--json")) == {"collection": "documents", "deleted": 1}
    assert data(run("rag", "list", "--json")) == {"documents": []}


def test_documents_are_deleted_by_filter_and_id(run):
    """All that is said must fit."""
    Path("a.jsonl").write_text("".join(f'{{"text": "row {n}", "year": {2000 + n}, "k": "id{n}"}}\n' for n in range(5)))
    run("rag", "add", "a.jsonl", "--id-field", "k")
    delete = ("rag", "delete", "--collection", "documents", "--yes")
    assert "2 passages deleted" in run(*delete, "--where", '{"year": {"$lt": 2002}}').out
    assert "1 passage deleted" in run(*delete, "--id", "id4", "--id", "id0").out
    left = [json.loads(line)["id"] for line in run("rag", "export").out.splitlines()]
    assert left == ["id2", "id3"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("rag", "delete", "--all", "--yes"), "--collection NAME is needed"),
        (("rag", "delete", "--collection", "documents", "--yes"), "say what to delete"),
        (("rag", "delete", "--collection", "documents", "--all", "--id", "x", "--yes"), "say what to delete"),
        (("rag", "query", "x", "--where", "{"), "--where is no JSON"),
        (("rag", "query", "x", "--where", "[]"), "--where takes a JSON object"),
        (("rag", "query", " "), "the question is empty"),
        (("rag", "query", "x", "--top-k", "0"), "--top-k is at least 1"),
        (("rag", "add", "docs", "--max-file-size", "large"), "write a size like 100MB"),
        (("rag", "add", "docs", "--chunk-size", "5"), "--chunk-size is at least 100"),
        (("rag", "add", "docs", "--overlap", "500"), "--overlap is 0 to 225"),
        (("rag", "add", "docs", "--metadata", "lang"), "write NAME=VALUE"),
        (("rag", "add", "docs", "--match-threshold", "7"), "0 to 2"),
        (("rag", "add"), "PATH"),
    ],
)
def test_what_cannot_be_meant_is_said(run, words, said):
    """The status is 2, and nothing is done."""
    ran = run(*words)
    assert ran.status == 2
    assert said in ran.err


def test_an_unknown_collection_or_filter_is_an_error(run):
    """With what there is."""
    run("rag", "add", "docs")
    ran = run("rag", "list", "--collection", "document")
    assert (ran.status, "did you mean 'documents'" in ran.err) == (2, True)
    assert "$gtt" in run("rag", "query", "x", "--where", '{"a": {"$gtt": 1}}').err


def test_the_store_is_the_one_that_is_meant(run):
    """--store, else the only one, else the one with the collection, else an error that lists them."""
    configure("first", "second")
    ran = run("rag", "add", "docs")
    assert (ran.status, "--store NAME says it (there are: first, second)" in ran.err) == (2, True)
    assert run("rag", "add", "docs", "--store", "second", "--collection", "help").status == 0
    assert len(data(run("rag", "query", "tea", "--collection", "help", "--json"))) == 1
    assert "(there are: first, second)" in run("rag", "add", "docs", "--store", "third").err
    assert set(data(run("rag", "list", "--json"))) == {"first", "second"}


def test_a_store_that_cannot_be_filled_says_so(run):
    """The documents of "memory" stand in the config."""
    configure("documents", provider="memory")
    ran = run("rag", "add", "docs")
    assert ran.status == 2
    assert "'documents' (provider memory) can be searched, but not filled" in ran.err


def test_without_a_store_the_next_step_is_said(run):
    """A config of its own may have none."""
    Path("flexchat.toml").write_text(MODEL)
    for words in (("add", "docs"), ("list",), ("query", "x"), ("stats",)):
        ran = run("rag", *words)
        assert (ran.status, "[stores.documents]" in ran.err) == (2, True)


def test_a_bar_is_shown_on_a_terminal_only(run, monkeypatch):
    """Elsewhere a line now and then, and each failure at once."""
    assert run("rag", "add", "docs").err == ""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0)
    assert "1 of 2 files" in run("rag", "add", "docs", "--chunk-size", "500").err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert "files" in run("rag", "add", "docs", "--chunk-size", "600").err


def test_stopping_is_no_failure(run, tmp_path):
    """Ctrl-C: what is stored is kept, and the same command goes on."""
    for n in range(3000):
        Path(f"docs/f{n}.md").write_text(f"# Title {n}\n\n" + f"Words of file {n}. " * 40)
    program = "import sys; from flexchat.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = ["rag", "add", "docs", "--exclude", "guide.md"]
    started = subprocess.Popen([sys.executable, "-c", program, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    database = tmp_path / "documents.db-wal"
    while started.poll() is None and not (database.exists() and database.stat().st_size > 100_000):
        pass
    started.send_signal(signal.SIGINT)
    _, err = started.communicate(timeout=30)
    assert started.returncode == 130, err
    assert b"the same command goes on from there" in err
    assert b"Traceback" not in err
    listed = data(run("rag", "list", "--collection", "documents", "--json"))
    assert 0 < len(listed) < 3000
    Path("docs/f2999.md").write_text("Other.")
    report = data(run("rag", "add", "docs/f0.md", "--json"))
    assert report["unchanged"] == 1


def test_loading_the_commands_loads_nothing_heavy():
    """Every command line loads every plugin."""
    heavy = "numpy pypdf docx lxml selectolax charset_normalizer tqdm sqlite3 argparse"
    program = f"import sys, flexchat_rag.plugin; print([m for m in '{heavy}'.split() if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_export_that_cannot_be_written_is_one_sentence(run, monkeypatch):
    """A read-only file system refuses to delete, too, what is not there."""
    run("rag", "add", "docs")

    def refusing(work):
        def maybe(path, *args, **kwargs):
            if path.name.startswith(".all."):
                raise OSError(30, "Read-only file system")
            return work(path, *args, **kwargs)

        return maybe

    for name in ("open", "unlink"):
        monkeypatch.setattr(Path, name, refusing(getattr(Path, name)))
    ran = run("rag", "export", "--output", "all.jsonl")

    assert (ran.status, ran.out) == (2, "")
    assert ran.err == "flexchat: 'all.jsonl' cannot be written: Read-only file system\n"


def test_passages_that_came_from_no_file_are_listed_by_the_sources_they_name(run):
    """What an export gives back, and what a program adds."""
    run("rag", "add", "docs")
    run("rag", "export", "--output", "all.jsonl")
    run("rag", "add", "all.jsonl", "--collection", "copy")

    assert run("rag", "list", "--collection", "copy").out.splitlines() == [
        "all.jsonl  (0 passages)",
        "docs/guide.md  (2 passages, not added as a file)",
        "docs/notes.txt  (1 passage, not added as a file)",
    ]
    assert "not added" not in run("rag", "list", "--collection", "documents").out


@pytest.mark.parametrize("words", [["export"], ["stats"], ["query", "tea"]])
def test_an_empty_store_is_told_with_what_fills_it(run, words):
    assert "the store 'documents' is empty: flexchat rag add PATH fills it" in run("rag", *words).err


@pytest.mark.parametrize(
    "words",
    [
        ("query", "tea", "--collection", ""),
        ("query", "tea", "--store", " "),
        ("add", "docs", "--collection", ""),
        ("list", "--collection", ""),
        ("list", "--store", ""),
        ("stats", "--collection", ""),
        ("show", "docs/notes.txt", "--collection", ""),
        ("export", "--collection", ""),
        ("delete", "--collection", "", "--all", "--yes"),
        ("add", "docs", "--text-field", ""),
        ("add", "docs", "--title-field", ""),
        ("add", "docs", "--include", ""),
    ],
    ids=" ".join,
)
def test_an_empty_name_is_an_error_and_not_all_there_is(run, words):
    """Most often a variable of the shell that is not set."""
    run("rag", "add", "docs")
    ran = run("rag", *words)
    assert ran.status == 2, ran
    assert "is empty" in ran.err or "no document store is called" in ran.err


def test_kinds_that_are_left_out_are_counted(run):
    """A folder of other programs' files must not look as if all of it had been read."""
    for name in ("a.xlsx", "b.XLSX", "c.png", "LICENSE", ".hidden"):
        Path("docs", name).write_bytes(b"\0")
    os.symlink("guide.md", "docs/link.md")
    ran = run("rag", "add", "docs")
    assert ran.status == 0
    assert ran.err == (
        "left out: 2 .xlsx, 1 .png, 1 without ending, 1 hidden, 1 link (--follow-links) "
        "(--include '*.xyz' takes other endings, as text)\n"
    )
    report = data(run("rag", "add", "docs", "--json"))
    assert report["left_out"] == {".xlsx": 2, ".png": 1, "without ending": 1, "hidden": 1, "links": 1}


def test_what_is_to_be_said_of_a_file_is_said_and_counted(run):
    """On standard error, in the summary and in the JSON; it is no failure. An encoding of one's own settles it."""
    Path("docs/old.txt").write_bytes("naïve".encode("latin-1"))
    Path("docs/empty.md").touch()
    ran = run("rag", "add", "docs")
    assert ran.status == 0
    assert "note: docs/empty.md holds no text\n" in ran.err
    assert "note: docs/old.txt was read as cp1252, a guess (" in ran.err
    assert "4 added, 2 with notes;" in ran.out
    report = data(run("rag", "add", "docs/old.txt", "--encoding", "LATIN1", "--json"))
    assert (report["noted"], report["notes"]) == (0, [])
    assert run("rag", "add", "docs", "--encoding", "utf9").status == 2


def test_notes_on_many_files_are_not_all_shown(run):
    """The JSON has them."""
    for number in range(30):
        Path(f"docs/{number}.md").touch()
    ran = run("rag", "add", "docs")
    assert ran.err.count("holds no text") == progress.MOST_NOTES
    assert "there is something to say of more files: --json lists it" in ran.err
    Path("docs/0.md").write_text(" ")
    assert len(data(run("rag", "add", "docs", "--json", "--chunk-size", "500"))["notes"]) == 30


def test_a_file_with_a_part_that_cannot_be_read_is_one_file(run, monkeypatch):
    """Counted as added and as failed, it was two: "38 of 36 files"."""
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0)
    Path("rows.csv").write_text("a\n1\n1,2\n")
    ran = run("rag", "add", "rows.csv", "docs")
    assert ran.status == 1
    assert "3 of 3 files" in ran.err
    assert "4 of 3" not in ran.err
    assert data(run("rag", "add", "docs", "--json"))["files"] == 2


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

    monkeypatch.setattr(progress, "SECONDS_BETWEEN_BEATS", 0)
    monkeypatch.setattr(progress, "SECONDS_BEFORE_THE_FIRST_LINE", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    (tmp_path / "a.md").write_text("Text")
    report = await progress.Progress(Terminal()).ingest(Slow(), [str(tmp_path / "a.md")], collection="c")
    assert report.added == 1
    assert told[0].startswith("none of 1 file yet; the first passages take longest where an embedding model")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "1 ms"), (0.04, "40 ms"), (0.94, "940 ms"), (0.96, "1.0 s"), (6.04, "6.0 s"), (200, "3 min 20 s")],
)
def test_a_duration_is_never_nothing(seconds, said):
    """ "0.0 s" says that nothing was done."""
    assert spoken_seconds(seconds) == said


def test_a_damaged_store_is_put_aside_and_filled_anew(run):
    """Whoever types the command is told where the old one is."""
    run("rag", "add", "docs")
    content = Path("documents.db").read_bytes()
    Path("documents.db").write_bytes(b"\xee" * 100 + content[100:])
    ran = run("rag", "add", "docs")
    assert ran.status == 0
    (aside,) = Path().glob("documents.damaged-*.db")
    assert aside.read_bytes()[100:] == content[100:]
    assert f"'documents.db' is damaged: it was put aside as '{aside}', and a new one is begun" in ran.err
    assert len(data(run("rag", "query", "tea", "--json"))) == 1
