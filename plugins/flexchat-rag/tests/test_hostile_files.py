"""Files that are broken, or made to do harm: each ends in a sentence, in bounded time and memory."""

import json
import os
import subprocess
import sys
import time
import zipfile

import docx
import pytest
from flexchat_rag.ingest.files import kind_of
from flexchat_rag.ingest.pipeline import IngestOptions, add_files
from flexchat_rag.ingest.records import FieldMapping
from flexchat_rag.ingest.sections import Record, Trouble, UnreadableFileError

pytestmark = pytest.mark.slow


def read(path):
    return list(kind_of(path).read(path, FieldMapping()))


def refused(path, content=None):
    if content is not None:
        path.write_bytes(content)
    begun = time.thread_time()
    with pytest.raises(UnreadableFileError) as caught:
        read(path)
    assert time.thread_time() - begun < 5
    return str(caught.value)


class Kept:
    """A store that keeps everything."""

    def __init__(self):
        self.documents, self.sources_added = [], []

    async def sources(self, **_):
        return []

    async def add(self, documents, *, collection, source):
        self.documents += documents
        self.sources_added.append(source)
        return len(documents)


async def fill(*paths, **options):
    store = Kept()
    return await add_files(store, [str(p) for p in paths], collection="c", options=IngestOptions(**options)), store


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    """The sizes in the archive's directory are enough to know."""
    path = tmp_path / "bomb.docx"
    docx.Document().save(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/bomb.xml", bytes(30_000_000))
    assert "zip bomb" in refused(path)


def test_an_archive_of_countless_parts_is_refused(tmp_path):
    """Each part costs memory, however small."""
    path = tmp_path / "many.docx"
    with zipfile.ZipFile(path, "w") as archive:
        for n in range(10_001):
            archive.writestr(str(n), "")
    assert "parts" in refused(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 garbage", b"no zip", bytes(1000)])
def test_what_is_no_word_document_is_refused(tmp_path, content):
    """Garbage, and an archive of something else."""
    assert "not a Word document" in refused(tmp_path / "a.docx", content)
    with zipfile.ZipFile(tmp_path / "b.docx", "w") as archive:
        archive.writestr("hello.txt", "hello")
    assert "damaged Word document" in refused(tmp_path / "b.docx")


def test_entities_in_a_word_document_are_not_expanded(tmp_path):
    """A few lines of XML must not become gigabytes."""
    path = tmp_path / "laughs.docx"
    docx.Document().save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    levels = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    body = (
        parts["word/document.xml"]
        .decode()
        .partition("?>")[2]
        .replace("<w:body>", "<w:body><w:p><w:r><w:t>&l9;</w:t></w:r></w:p>")
    )
    parts["word/document.xml"] = f'<!DOCTYPE x [<!ENTITY l0 "ha">{levels}]>{body}'.encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    try:
        pieces = read(path)
    except UnreadableFileError as error:
        assert "damaged" in str(error)  # noqa: PT017  either is right
    else:
        assert sum(len(piece.text) for piece in pieces) < 10_000


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x01\0\0", bytes(range(256)) * 40, b"text\x01\x02\x03\x04" * 50])
def test_a_binary_file_called_text_is_refused(tmp_path, content):
    """It says so, and is not stored as nonsense."""
    assert refused(tmp_path / "a.txt", content).startswith("is not text")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"%PDF-1.7\n" + bytes(range(256)) * 100,
        b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 1 0 R /Kids [1 0 R] /Count 99999999 >>\nendobj\n"
        b"trailer << /Root 1 0 R >>\nstartxref\n9\n%%EOF",
    ],
)
def test_garbage_called_pdf_is_refused(tmp_path, content):
    """Whatever its parser raises."""
    assert "PDF" in refused(tmp_path / "a.pdf", content) or "pages" in refused(tmp_path / "a.pdf", content)


def test_deeply_nested_json_is_refused(tmp_path):
    """A list in a list, 100,000 times; in JSON lines it costs one line."""
    deep = b"[" * 100_000 + b"]" * 100_000
    assert "nested too deeply" in refused(tmp_path / "a.json", b'{"a": ' + deep + b"}")
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": ' + deep + b'}\n{"text": "fine"}\n')
    trouble, record = read(path)
    assert trouble == Trouble("line 1: it is nested too deeply")
    assert record.text == "fine"


def test_a_json_record_of_many_megabytes_is_refused(tmp_path):
    """Also where a quote that is never closed makes one of all the rest."""
    path = tmp_path / "a.json"
    path.write_text('[{"text": "' + "x" * 17_000_000)
    assert "line 1" in refused(path)
    lines = tmp_path / "a.jsonl"
    lines.write_text(f'{{"text": "{"x" * 17_000_000}"}}\n{{"text": "fine"}}\n')
    trouble, record = read(lines)
    assert isinstance(trouble, Trouble)
    assert record.text == "fine"


def test_numbers_of_many_digits_are_told_or_kept_as_text(tmp_path):
    """JSON has no largest number; databases have."""
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "a", "n": 10**40}) + '\n{"text": "b", "n": ' + "9" * 5000 + "}\n")
    first, second = read(path)
    assert first.metadata == {"n": str(10**40)}
    assert isinstance(second, Trouble)


def test_a_field_of_ten_megabytes_is_read(tmp_path):
    """One of 17 is told with its line."""
    path = tmp_path / "a.csv"
    path.write_text(f"text,n\n{'x' * 10_000_000},1\n")
    (record,) = read(path)
    assert isinstance(record, Record)
    assert len(record.text) == 10_000_000
    path.write_text(f"text,n\n{'x' * 17_000_000},1\n")
    (trouble,) = read(path)
    assert trouble.text.startswith("line 2: ")


@pytest.mark.timed
def test_nested_elements_are_refused_or_read_in_short_time(tmp_path):
    """100,000 divs in each other cost the parser 20 seconds."""
    assert "nests more than" in refused(tmp_path / "a.html", b"<div>" * 100_000)
    path = tmp_path / "b.html"
    path.write_bytes(b"<div>" * 4_000 + b"deep" + b"</div>" * 4_000 + b"<p>unclosed" * 20_000)
    begun = time.thread_time()
    (section, *_) = read(path)
    assert section.text.startswith("deep")
    assert time.thread_time() - begun < 5


def test_a_heading_of_a_megabyte_is_cut(tmp_path):
    """A title is one line."""
    path = tmp_path / "a.md"
    path.write_text("# " + "word " * 200_000 + "\ntext\n")
    assert max(len(heading) for section in read(path) for heading in section.headings) <= 200


async def test_files_that_vanish_or_may_not_be_read_are_told(tmp_path, monkeypatch):
    """The others are stored."""
    for name in "abc":
        (tmp_path / f"{name}.md").write_text(f"Text {name}.")
    from flexchat_rag.ingest import pipeline

    digest = pipeline._digest

    def vanishing(path, kind, options):
        if path.name == "b.md":
            path.unlink()
        return digest(path, kind, options)

    monkeypatch.setattr(pipeline, "_digest", vanishing)
    report, store = await fill(tmp_path)
    assert report.failures == [f"{tmp_path}/b.md cannot be read: No such file or directory"]
    assert sorted(document.text for document in store.documents) == ["Text a.", "Text c."]


async def test_a_reader_that_breaks_costs_one_file(tmp_path, monkeypatch):
    """A mistake of ours, or of a library, is told as any other failure."""
    (tmp_path / "a.md").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    from flexchat_rag.ingest import files

    def broken(path, reading):
        raise AssertionError("never thought of")
        yield

    monkeypatch.setitem(files._BY_SUFFIX, ".md", files.Kind("Markdown", ".md", broken))
    report, store = await fill(tmp_path)
    assert report.failures == [f"{tmp_path}/a.md cannot be read (AssertionError: never thought of)"]
    assert [document.text for document in store.documents] == ["b"]


async def test_names_with_line_breaks_and_bytes_are_sources(tmp_path):
    """They are stored as what every store and terminal takes."""
    folder = os.fsencode(tmp_path)
    for name in (b"line\nbreak.md", b"byte\xff.md"):
        os.close(os.open(os.path.join(folder, name), os.O_CREAT))
    report, store = await fill(tmp_path)
    assert (report.added, report.failed) == (2, 0)
    assert sorted(source.name.rpartition("/")[2] for source in store.sources_added) == [
        "byte\\xff.md",
        "line\\x0abreak.md",
    ]


async def test_a_file_over_the_limit_is_refused(tmp_path):
    """The sentence says both sizes, and the option."""
    (tmp_path / "a.txt").write_text("x" * 3_000_000)
    report, _ = await fill(tmp_path, max_file_bytes=2_000_000)
    assert report.failures == [
        f"{tmp_path}/a.txt has 3.0 MB, and 2.0 MB are read at most (--max-file-size says how many)"
    ]


PROGRAM = r"""
import asyncio, re, sys
from flexchat_rag.ingest.pipeline import add_files
class Counting:
    documents = 0
    async def sources(self, **_): return []
    async def add(self, documents, *, collection, source):
        self.documents += len(documents); return len(documents)
store = Counting()
def most_memory():  # of this program alone: getrusage also counts what its parent had
    return int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
before = most_memory()
report = asyncio.run(add_files(store, [sys.argv[1]], collection="c"))
after = most_memory()
print(report.added, report.failed, store.documents, (after - before) // 1024, round(report.seconds, 1))
"""


def ingested(path):
    """Run in a process of its own; return files added, failed, passages, MiB it grew, and seconds."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, path], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


MEASURES = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is measured in /proc")


@MEASURES
@pytest.mark.parametrize("name", ["lines.txt", "one_line.txt"])
def test_a_text_of_many_megabytes_is_read_in_bounded_memory(tmp_path, name):
    """FLEXCHAT_LARGE=100 makes it the 100 MB that are allowed; a line may be as long as the file."""
    size = int(os.environ.get("FLEXCHAT_LARGE", "8")) * 1_000_000
    line = b"Words of a sentence that is read. " * 3 + (b"\n\n" if name == "lines.txt" else b"")
    with (tmp_path / name).open("wb") as file:
        for _ in range(size // len(line)):
            file.write(line)
    added, failed, passages, grown, seconds = ingested(tmp_path)
    print(f"{name}: {passages:.0f} passages, {grown:.0f} MiB, {seconds} s")
    assert (added, failed) == (1, 0)
    assert passages > size / 1000
    assert grown < 60


@MEASURES
def test_many_files_are_read_in_bounded_memory(tmp_path):
    """FLEXCHAT_FILES=10000 makes it a large tree."""
    number = int(os.environ.get("FLEXCHAT_FILES", "1000"))
    for n in range(number):
        folder = tmp_path / str(n % 50)
        folder.mkdir(exist_ok=True)
        (folder / f"{n}.md").write_text(f"# Title {n}\n\n" + f"Words of file {n}. " * 100)
    added, failed, passages, grown, seconds = ingested(tmp_path)
    print(f"{number} files: {passages:.0f} passages, {grown:.0f} MiB, {seconds} s")
    assert (added, failed) == (number, 0)
    assert grown < 40
