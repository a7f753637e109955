"""Records of CSV, JSON and JSON lines: nothing of them is lost without a word, and none costs more than its size."""

import json
import time

import pytest
from flexchat_rag.ingest.pipeline import add_files
from flexchat_rag.ingest.records import MAX_METADATA_CHARS, MAX_METADATA_FIELDS, FieldMapping
from flexchat_rag.ingest.sections import Record, Trouble, UnreadableFileError


class Kept:
    """A store that keeps everything."""

    def __init__(self):
        self.documents = []

    async def sources(self, **_):
        return []

    async def add(self, documents, *, collection, source):
        self.documents += documents
        return len(documents)


@pytest.mark.parametrize("first", ["sep=;", "SEP=;", '"sep=;"', "\ufeffsep=;"])
def test_the_line_excel_writes_says_the_delimiter_and_is_no_header(write, read, first):
    """The line numbers of troubles count it."""
    pieces, notes = read(write("a.csv", f"{first}\r\nname;n,m\r\nAnna;1,5\r\na;b;c\r\n"))
    assert pieces[0] == Record(text="name: Anna\nn,m: 1,5", metadata={"name": "Anna", "n,m": "1,5"})
    assert pieces[1].text.startswith("line 4: 3 fields")
    assert notes == []


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_most_rows_agree_on(write, read, delimiter):
    """A header alone can mislead: names may hold the others."""
    rows = (('"a, b; c"', "d|e,f"), ("1", "2"), ("3", "4"))
    content = "\n".join(delimiter.join(f'"{cell.strip(chr(34))}"' for cell in row) for row in rows)
    (record, _), _ = read(write("a.csv", content))
    assert record.metadata == {"a, b; c": 1, "d|e,f": 2}


def test_a_quote_that_is_never_closed_is_told(write, read):
    """Else all the rest of the file would be one field."""
    pieces, _ = read(write("a.csv", 'a,b\n1,2\n3,"open\n5,6\n7,8\n'))
    assert pieces[0].metadata == {"a": 1, "b": 2}
    assert pieces[1] == Trouble("line 3: a quote is never closed, so nothing after it could be read")


def test_columns_of_one_name_and_of_none_are_all_read(write, read):
    """A row would else lose a field."""
    (record,), notes = read(write("a.csv", "a,a,\n1,2,3\n"))
    assert record.metadata == {"a": 1, "a (column 2)": 2, "column 3": 3}
    assert notes == ["names a column twice: the second is called 'a (column 2)'"]


def test_short_rows_and_a_header_of_numbers_are_said(write, read):
    """Both may be right; whoever knows the file can tell. Empty fields behind the last name are nothing."""
    pieces, notes = read(write("a.csv", "a,b,c\n1\n1,2,3,,\n"))
    assert [piece.metadata for piece in pieces] == [{"a": 1}, {"a": 1, "b": 2, "c": 3}]
    assert notes == ["holds what is not read: 2 missing fields (a row shorter than the first)"]
    _, notes = read(write("b.csv", "1,2\n3,4\n"))
    assert "only numbers in its first row" in notes[0]


@pytest.mark.timed
async def test_a_row_of_20000_columns_costs_what_it_holds(write):
    """Each of its passages has some of the fields as metadata, not all; that is said."""
    path = write("a.csv", ",".join(f"c{n}" for n in range(20_000)) + "\n" + ",".join(f"v{n}" for n in range(20_000)))
    store, begun = Kept(), time.thread_time()
    report = await add_files(store, [str(path)], collection="c")
    assert time.thread_time() - begun < 5
    stored = sum(len(d.text) + len(json.dumps(d.metadata)) for d in store.documents)
    assert stored < 12 * path.stat().st_size
    assert report.notes == [f"{path} holds what is not read: 19,900 fields as metadata, being too long or too many"]
    assert "v19999" in store.documents[-1].text


async def test_one_long_field_is_no_metadata_of_each_of_its_passages(write):
    """Whatever the format; one that was named is bounded, too."""
    article = "words of it " * 10_000
    for name, content in (
        ("a.json", json.dumps([{"title": "T" * 5_000, "article": article, "n": 1}])),
        ("a.csv", f"title,article,n\n{'T' * 5_000},{article},1\n"),
        ("a.md", f"---\nn: 1\narticle: {'x' * 50_000}\n---\n{article}"),
    ):
        store = Kept()
        report = await add_files(store, [str(write(name, content))], collection="c")
        assert len(store.documents) > 100
        assert {frozenset(d.metadata) - {"line"} for d in store.documents} == {frozenset({"n"})}
        assert max(len(d.title) for d in store.documents) <= 1_000
        assert "metadata" in report.notes[0]
    assert MAX_METADATA_FIELDS == 100
    assert MAX_METADATA_CHARS == 4_000


async def test_a_record_whose_id_is_too_long_is_a_failure(write):
    """The others are stored."""
    store = Kept()
    path = write("a.jsonl", json.dumps({"id": "x" * 5_000, "text": "a"}) + '\n{"id": "1", "text": "b"}')
    from flexchat_rag.ingest.pipeline import IngestOptions

    options = IngestOptions(mapping=FieldMapping(id_field="id"))
    report = await add_files(store, [str(path)], collection="c", options=options)
    assert [document.id for document in store.documents] == ["1"]
    assert "an id or a source has more than 1,000 characters" in report.failures[0]


def test_a_name_that_stands_twice_in_an_object_is_told(write, read):
    """JSON lets the last one win, and nobody would know."""
    trouble = "'text' stands more than once in one object; the last one counts"
    pieces, _ = read(write("a.jsonl", '{"text": "a", "text": "b"}\n{"text": "c", "in": {"x": 1, "y": 2}}\n'))
    assert [piece.text for piece in pieces] == [f"line 1: {trouble}", "b", "c"]
    pieces, _ = read(write("a.json", '[{"text": "a", "text": "b"}]'))
    assert pieces[0] == Trouble(f"item 1: {trouble}")


def test_what_follows_a_json_list_is_told(write, read):
    """Two exports glued together."""
    with pytest.raises(UnreadableFileError, match="more follows the list"):
        read(write("a.json", '[{"text": "a"}]\n[{"text": "b"}]'))


def test_json_in_fields_is_written_without_blanks(write, read):
    """As the Node original wrote it; in texts and in metadata, letters as they are."""
    item = {
        "text": ["a", {"k": [1, "ü"], "n": None}],
        "author": {"name": "Zoë", "ids": [1, 2]},
        "empty": [],
        "none": None,
    }
    (record,), _ = read(write("a.json", json.dumps([item])), text_fields=["text"])
    assert record.text == 'a, {"k":[1,"ü"],"n":null}'
    assert record.metadata == {"author": '{"name":"Zoë","ids":[1,2]}'}
    (record,), _ = read(write("b.json", json.dumps([{"a": {"x": 1}, "b": True}])))
    assert record.text == 'a: {"x":1}\nb: true'


def test_text_fields_are_joined_by_a_separator_of_ones_own(write, read):
    """Absent, by an empty line; all fields of a record by a line's end."""
    path = write("a.json", '[{"a": "one", "b": "two", "c": ""}]')
    for separator, expected in ((None, "one\n\ntwo"), (" | ", "one | two"), ("", "onetwo")):
        (record,), _ = read(path, text_fields=("a", "c", "b"), text_separator=separator)
        assert record.text == expected
    (record,), _ = read(path, text_separator="; ")
    assert record.text == "a: one; b: two"


@pytest.mark.parametrize("names", ["title", "", ("a", 3), ("",), None, 5, {"a": 1}, b"a"])
def test_a_single_name_in_place_of_a_list_is_an_error(names):
    """It would be read letter by letter."""
    with pytest.raises(TypeError, match="text_fields must be a list of names of fields"):
        FieldMapping(text_fields=names)
    if names is not None:
        with pytest.raises(TypeError, match="metadata_fields must be a list"):
            FieldMapping(metadata_fields=names)
    with pytest.raises(TypeError, match=r"write \['title'\]"):
        FieldMapping(text_fields="title")
    assert FieldMapping(text_fields=["a"]) == FieldMapping(text_fields=("a",))


def test_front_matter_that_is_not_read_is_counted_and_a_text_between_rules_is_text(write, read):
    """Lists and longer texts are not values on a line."""
    (section,), notes = read(write("a.md", "---\ntitle: T\ntags: [a, b]\nlong: |\n  text\n# said\n---\nBody"))
    assert section.headings == ("T",)
    assert notes == ["holds what is not read: 3 lines of front matter not of the form NAME: VALUE"]
    (section,), notes = read(write("b.md", "---\nA sentence that stands between two rules.\n---\nBody"))
    assert "A sentence" in section.text or "A sentence" in " ".join(section.headings)
    assert notes == []


def test_a_heading_that_is_cut_is_read_as_a_whole_below_itself(write, read):
    """A title is a line; what is cut off it would be lost."""
    heading = "word " * 100 + "END"
    (section,), _ = read(write("a.md", f"# {heading}\nText"))
    assert len(section.headings[0]) <= 200
    assert "END" in section.text
    assert section.text.endswith("Text")
