"""Cutting texts into passages."""

import itertools

from flexchat_rag.ingest.sections import Record, Section, documents_of, spans
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.text(alphabet=st.sampled_from("ab.!? \n\t`~é。🙂"), max_size=900) | st.lists(
    st.sampled_from(["word ", "A sentence. ", "\n\n", "\n", "```\n", "code()\n\n", "x" * 70]), max_size=80
).map("".join)


@given(TEXTS, st.integers(4, 120), st.integers(0, 60))
def test_no_text_is_lost_order_is_kept_and_sizes_are_bounded(text, size, overlap):
    """All that is not blank is in a passage; beginnings and ends grow; none is longer than asked."""
    found = list(spans(text, size, overlap))
    covered = set()
    for start, end in found:
        assert 0 < end - start <= size
        covered.update(range(start, end))
    assert all(place in covered for place, char in enumerate(text) if not char.isspace())
    for (start, end), (next_start, next_end) in itertools.pairwise(found):
        assert start < next_start
        assert end < next_end
        assert end - next_start <= min(overlap, size // 4)


def test_a_short_text_is_one_passage():
    """Nothing is cut that need not be."""
    assert list(spans("  Short. Text.  ", 100, 20)) == [(2, 14)]
    assert list(spans(" \n ", 100, 20)) == []


def test_paragraphs_go_before_sentences_and_sentences_before_words():
    """The best place near the end of the room is taken."""
    first, second = "One sentence here. " * 4, "Another paragraph."
    text = f"{first.strip()}\n\n{second}"
    (start, end), *_ = spans(text, 90, 0)
    assert text[start:end].strip() == first.strip()
    sentences = "It ends here. And goes on with words until it is too long for it"
    (start, end), *_ = spans(sentences, 25, 0)
    assert sentences[start:end].strip() == "It ends here."


def test_code_between_fences_is_not_cut_if_avoidable():
    """A passage ends before a block of code that does not fit any more; inside of one it ends at a line."""
    code = "```python\nfirst()\n\nsecond()\n```"
    text = f"{'Some words before it. ' * 3}\n\n{code}\n\nAfter."
    passages = [text[start:end].strip() for start, end in spans(text, 90, 20)]
    assert any(code in passage for passage in passages)
    long = "```\n" + "".join(f"call number {n}\n" for n in range(30)) + "```"
    for start, end in spans(long, 100, 20):
        assert end == len(long) or long[end - 1] == "\n"
        assert start == 0 or long[start - 1] == "\n"


def test_a_passage_repeats_the_end_of_the_one_before():
    """The overlap begins with a sentence if there is one."""
    text = f"{'x' * 60}. Short one. {'y ' * 20}"
    (_, cut), (start, _), *_ = spans(text, 80, 20)
    assert start < cut
    assert text[start:].startswith("Short one.")


def test_the_path_of_the_headings_is_the_title():
    """What stands above a passage is its title, and is not repeated in the text."""
    section = Section(text="Run pip.", headings=("Guide", "Install", "Linux"), metadata={"line": 7})
    (document,) = documents_of(section, source="docs/guide.md")
    assert (document.title, document.text) == ("Guide › Install › Linux", "Run pip.")
    assert (document.source, document.metadata) == ("docs/guide.md", {"line": 7})
    (plain,) = documents_of(Section(text="No heading."), source="docs/notes.txt")
    assert plain.title == "notes.txt"


def test_each_passage_says_its_own_line():
    """A line is that of the passage, not of the section."""
    text = "\n".join(f"Line number {n} is here." for n in range(1, 41))
    documents = list(documents_of(Section(text=text, metadata={"line": 1}), source="a.txt", size=200, overlap=0))
    for document in documents:
        assert document.text.startswith(f"Line number {document.metadata['line']} ")


def test_a_long_record_has_numbered_ids():
    """Its first passage keeps the record's id; an exported document is never cut."""
    text = "A sentence of some length. " * 20
    ids = [d.id for d in documents_of(Record(text=text, id="k", source="http://x"), source="a.jsonl", size=200)]
    assert ids[:2] == ["k", "k#2"]
    assert len(list(documents_of(Record(text=text, id="k", whole=True), source="a.jsonl", size=200))) == 1
    assert next(documents_of(Record(text="t", source="http://x"), source="a.jsonl")).source == "http://x"
