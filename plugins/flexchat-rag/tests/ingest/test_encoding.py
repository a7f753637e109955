"""In which encoding a text is: what is known is obeyed, what is guessed is said, what is lost is a problem."""

import pytest
from flexchat_rag.ingest.encoding import encoding_named, guessed
from flexchat_rag.ingest.pipeline import IngestOptions
from flexchat_rag.ingest.sections import Trouble, UnreadableFileError


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.html", "a.csv", "a.json", "a.jsonl"])
def test_a_guess_is_said_with_its_certainty_by_every_reader(write, text_of, name):
    """Latin-1 that could be anything is read as what is commonest."""
    content = {"a.csv": "text\nnaïve\n", "a.json": '["naïve"]', "a.jsonl": '"naïve"\n'}.get(name, "naïve\n")
    path = write(name, content.encode("latin-1"))
    text, (note,) = text_of(path)
    assert text == "naïve"
    assert note.startswith("was read as cp1252, a guess (")
    assert "% certain): 'naïve', which is 'naďve' in cp1250" in note.replace('["', "").replace('"]', "").replace(
        '"', ""
    )
    assert note.endswith("--encoding settles it")
    assert text_of(path, encoding="cp1250") == ("naďve", [])
    assert text_of(path, encoding="latin-1") == ("naïve", [])


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Größe über alles, schöne Grüße", "cp1252"),
        ("“quotes” – naïve", "cp1252"),
        ("El niño comió piña", "cp1252"),
        ("Preis 5 €", "cp1252"),
        ("Příliš žluťoučký kůň úpěl ďábelské ódy", "cp1250"),
        ("Zażółć gęślą jaźń i coś jeszcze po polsku", "cp1250"),
        ("Привет мир, как дела сегодня", "cp1251"),
        ("Мы поехали в город на поезде и увидели там много людей", "koi8-r"),
        ("日本語のテキストです。これは長い文章です。", "cp932"),
        ("中文字符测试，这是一段话。", "gb18030"),
        ("한국어 텍스트입니다", "cp949"),
        ("Ελληνικά κείμενο είναι εδώ", "cp1253"),
    ],
)
def test_the_likeliest_reading_is_the_right_one_where_the_text_shows_it(text, encoding):
    """Some languages, in what their files most often are in."""
    guess = guessed(text.encode(encoding))
    assert text.encode(encoding).decode(guess.encoding) == text
    assert 0.3 < guess.certainty < 1


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_characters_without_a_mark_are_read_and_said(write, text_of, encoding):
    """As some Windows programs write them."""
    text, (note,) = text_of(write("a.txt", "Hello, this is text.".encode(encoding)))
    assert text == "Hello, this is text."
    assert f"was read as {encoding}, a guess" in note


@pytest.mark.parametrize("content", [b"a\0b" * 100, b"\0" * 100, bytes(range(256))])
def test_binary_data_is_not_taken_for_wide_characters(write, read, content):
    """Zeros alone do not make UTF-16."""
    with pytest.raises(UnreadableFileError, match="binary"):
        read(write("a.txt", content))


def test_bytes_of_another_encoding_within_utf8_are_a_problem(write, read):
    """A file pasted together from two: the larger part says how it is read, and the rest is told with its line."""
    content = "Größe\nÄrger\nGrüße\n".encode() + "naïve".encode("latin-1")
    section, trouble = read(write("a.txt", content))[0]
    trouble, section = (section, trouble) if isinstance(section, Trouble) else (trouble, section)
    assert section.text == "Größe\nÄrger\nGrüße\nna\ufffdve"
    assert trouble.text == (
        "1 character cannot be read as utf-8 and became U+FFFD, the first in line 4; --encoding settles it"
    )


def test_a_page_that_names_utf8_and_is_not_is_a_problem(write, read):
    """What it names is obeyed; what that loses is told."""
    path = write("a.html", '<meta charset="utf-8"><p>naïve café</p>'.encode("latin-1"))
    pieces, _ = read(path)
    assert [p.text for p in pieces if isinstance(p, Trouble)] == [
        "2 characters cannot be read as utf-8 and became U+FFFD, the first in line 1; --encoding settles it"
    ]
    pieces, notes = read(path, encoding="cp1252")
    assert [piece.text for piece in pieces] == ["naïve café"]
    assert notes == []


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ('<meta charset="iso-8859-1">', "names iso-8859-1, but is UTF-8"),
        ('<?xml version="1.0" encoding="windows-1250"?>', "names windows-1250, but is UTF-8"),
        ('<meta charset="no-such">', "names an unknown encoding ('no-such')"),
        (
            '<?xml version="1.0" encoding="utf-8"?><meta charset="latin1">',
            "names two encodings, utf-8 and latin1, of which the first was used",
        ),
    ],
)
def test_a_page_that_contradicts_its_label_says_so(write, text_of, label, said):
    """Bytes that are UTF-8 throughout are hardly ever anything else."""
    text, (note,) = text_of(write("a.html", f"{label}<p>Größe</p>"))
    assert text == "Größe"
    assert note.startswith(said)


@pytest.mark.parametrize(
    ("label", "encoding"),
    [
        ('<meta charset="iso-8859-1">', "cp1252"),
        ("<meta http-equiv=Content-Type content='text/html; charset=windows-1251'>", "cp1251"),
        ('<?xml version="1.0" encoding="iso-8859-2"?>', "iso8859-2"),
    ],
)
def test_a_label_is_obeyed_without_a_word(write, text_of, label, encoding):
    """As browsers read it: by iso-8859-1 everybody means windows-1252."""
    text = "Привет" if encoding == "cp1251" else "Łódź" if encoding == "iso8859-2" else "“Größe”"
    assert text_of(write("a.html", f"{label}<p>{text}</p>".encode(encoding))) == (text, [])


def test_a_byte_order_mark_comes_before_a_label(write, text_of):
    """And the difference is said."""
    content = b"\xef\xbb\xbf" + '<meta charset="latin1"><p>Größe</p>'.encode()
    text, (note,) = text_of(write("a.html", content))
    assert text == "Größe"
    assert "byte-order mark" in note


def test_replacement_characters_that_a_file_already_has_are_said(write, text_of):
    """It was damaged before: nothing here can mend that."""
    text, (note,) = text_of(write("a.txt", "fine\nna\ufffdve"))
    assert text == "fine\nna\ufffdve"
    assert note == "holds 1 character U+FFFD (the first in line 2): it was damaged before"


def test_an_encoding_that_does_not_fit_is_a_problem(write, read):
    """Also one that somebody has chosen; one that happens to fit UTF-8 is said."""
    pieces, _ = read(write("a.txt", "naïve".encode("latin-1")), encoding="utf-8")
    assert any(isinstance(piece, Trouble) for piece in pieces)
    _, (note,) = read(write("b.txt", "naïve"), encoding="cp1252")
    assert note == "is UTF-8, but was read as cp1252, which --encoding says"


@pytest.mark.parametrize("label", ["no-such", "", "hex", "rot13", "base64", "a\0b", "idna"])
def test_only_encodings_of_text_are_known(label):
    """Python has others under the same roof."""
    if label != "idna":
        assert encoding_named(label) is None
        with pytest.raises(ValueError, match="is not an encoding"):
            IngestOptions(encoding=label)
    assert encoding_named(" Latin-1 ") == "iso8859-1"
