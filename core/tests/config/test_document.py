"""Reading a file: what cannot be read is refused with a reason, the rest keeps its lines."""

import json
import os

import pytest
from flexchat.config.document import MAX_BYTES, document_of, read_document
from flexchat.errors import ConfigError


def refused(path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_document(path)
    (problem,) = caught.value.problems
    assert problem.source == str(path)
    return str(problem).removeprefix(str(path))


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.toml", b"a = 1\nb = ", ":2: this is not TOML: Invalid value"),
        ("a.toml", b"a = 1\n\na = 2\n", ":3: this is not TOML: Cannot overwrite a value"),
        ("a.toml", b'{"a": 1}', ":1: this is not TOML: Invalid statement; this looks like JSON: name the file .json"),
        ("a.json", b'{\n"a": 1,\n}', ":3: this is not JSON: "),
        ("a.json", b'{\n// no\n"a": 1}', 'JSON has no comments, a "comment" key takes them'),
        ("a.json", b"[1]", ":1: a configuration is one table: {…}, not a list"),
        ("a.json", b"", ":1: this is not JSON: Expecting value (column 1)"),
        ("a.json", b'{"a": ' + b"9" * 5000 + b"}", ": a number is too long to be read"),
        ("a.toml", b"a = " + b"9" * 5000, ": a number is too long to be read"),
        ("a.json", b'{"a": ' + b"[" * 65 + b"]" * 65 + b"}", ": tables and lists are nested more than 64 deep"),
        ("a.json", b"[" * 100_000, ": tables and lists are nested more than 64 deep"),
        ("a.toml", b"a = " + b"[" * 70 + b"]" * 70, ": tables and lists are nested more than 64 deep"),
        ("a.toml", b"a = " + b"[" * 100_000, ": tables and lists are nested more than 64 deep"),
        ("a.toml", b"a" + b".a" * 200 + b" = 1", ": tables and lists are nested more than 64 deep"),
        ("a.toml", b"\n\nx = '\xff'", ":3: the file is not UTF-8"),
        ("a.toml", "a = 1".encode("utf-16"), ":1: the file is UTF-16; save it as UTF-8"),
        ("a.toml", b'a = 1\nb = "C:\\Users"', ':2: this is not TOML: Invalid hex value; in "…" a backslash begins'),
        ("a.toml", b'a = 1\nb = "C:\\docs"', "use single quotes, '…', or write \\\\ for each"),
        (
            "a.toml",
            b'b = "C:\\"\n',
            ":1: this is not TOML: Illegal character '\\n'; in \"…\" a backslash begins an escape",
        ),
        ("a.json", b'{"a": "C:\\Users"}', "column 10); a backslash is written \\\\"),
        ("a.yaml", b'a: "C:\\docs"', "; in \"…\" a backslash begins an escape: use single quotes, '…'"),
        ("a.toml", b"#" * (MAX_BYTES + 1), ": the file is larger than 8 MiB"),
        ("a.ini", b"a: 1", ": a configuration is a .toml, .yaml or .json file"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(tmp_path, name, content, text):
    """Neither a traceback nor a vague word: the line, and what to do."""
    path = tmp_path / name
    path.write_bytes(content)

    assert text in refused(path)


def test_a_missing_file_suggests_the_one_that_was_meant(tmp_path):
    (tmp_path / "chat.toml").write_text("")

    assert refused(tmp_path / "chta.toml") == ": there is no such file (did you mean 'chat.toml'?)"
    (tmp_path / "nix.toml").write_text("")
    assert refused(tmp_path / "mine.toml") == ": there is no such file"  # the endings alone make no two alike
    assert refused(tmp_path / "chat.json") == ": there is no such file (did you mean 'chat.toml'?)"
    assert refused(tmp_path / "absent" / "chat.toml") == ": there is no such file"


def test_a_folder_is_not_a_file(tmp_path):
    (tmp_path / "chat.toml").mkdir()

    assert refused(tmp_path / "chat.toml") == ": this is a folder, not a file"


def test_a_name_no_file_can_have_is_refused():
    assert "no file can have this name" in refused("a\0.toml")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_one_may_not_read_is_refused(tmp_path):
    (tmp_path / "chat.toml").write_text("")
    (tmp_path / "chat.toml").chmod(0)

    assert refused(tmp_path / "chat.toml") == ": permission denied"


def test_a_problem_has_the_line_of_its_place_or_of_the_nearest_parent(tmp_path):
    path = tmp_path / "chat.toml"
    path.write_text("[llms.gpt]\n\nprovider = 'x'\n[[responses]]\n[[responses]]\nllm = 'gpt'\n")
    document = read_document(path)

    assert str(document.problem(("llms", "gpt", "provider"), "no")) == f"{path}:3: llms.gpt.provider: no"
    assert document.problem(("responses", 1, "model"), "no").line == 5
    assert document.problem(("tools",), "no").line is None
    assert document.problem(("responses", 1), "no", at=("responses", 1, "llm")).line == 6
    assert document.folder == tmp_path


def test_a_key_written_twice_in_json_is_a_problem_among_the_others(tmp_path):
    path = tmp_path / "chat.json"
    path.write_text('{"llms": {},\n "llms": {"a": 1}}')

    document = read_document(path)

    assert document.data == {"llms": {"a": 1}}
    assert [str(p) for p in document.problems] == [
        f"{path}:2: llms: the key is written twice, first on line 1; remove one of them"
    ]


@pytest.mark.parametrize(
    ("toml", "text"),
    [
        ("2026-11-21", "dates and times are written as text, in quotes"),
        ("07:32:00", "dates and times are written as text, in quotes"),
        ("nan", "expected a finite number"),
        ("-inf", "expected a finite number"),
    ],
)
def test_what_json_cannot_say_is_a_problem_wherever_it_stands(tmp_path, toml, text):
    """A mock response with a date in it could never be sent to a model."""
    path = tmp_path / "chat.toml"
    path.write_text(f"\n[x]\ny = [{{z = {toml}}}]\n")

    (problem,) = read_document(path).problems

    assert (problem.line, problem.path, problem.text) == (3, "x.y[0].z", text)


def test_half_a_surrogate_pair_is_a_problem(tmp_path):
    path = tmp_path / "chat.json"
    path.write_text(json.dumps({"a": "\ud800"}))

    (problem,) = read_document(path).problems

    assert problem.path == "a"
    assert "surrogate" in problem.text


def test_a_mapping_given_in_code_is_taken_over_and_left_alone():
    """Tuples become lists; what is changed later on either side does not show on the other."""
    given = {"responses": ({"llm": "a"},)}

    document = document_of(given)
    document.data["responses"][0]["llm"] = "b"

    assert given == {"responses": ({"llm": "a"},)}
    assert (document.source, document.line(("responses",))) == ("", None)


def test_a_mapping_that_holds_itself_is_refused():
    endless: dict = {}
    endless["a"] = endless

    with pytest.raises(ConfigError, match="nested more than 64 deep"):
        document_of(endless)


def test_keys_of_a_mapping_are_text():
    with pytest.raises(ConfigError, match="keys are text, got the number 3"):
        document_of({"llms": {3: {}}})


@pytest.mark.parametrize(("name", "content"), [("a.toml", "a = 1\r\n"), ("a.json", '{"a": 1}'), ("a.yaml", "a: 1\n")])
def test_a_byte_order_mark_is_skipped(tmp_path, name, content):
    """Editors on Windows write one; lines are counted as ever."""
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + content.encode())

    document = read_document(path)

    assert (document.data, document.lines[("a",)]) == ({"a": 1}, 1)


def test_a_path_in_which_a_backslash_became_a_tab_is_a_problem(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('[stores.docs]\npath = "C:\\temp.db"\n[topic]\nprompt = "a\\tb"')

    (problem,) = read_document(path).problems

    assert (problem.path, problem.line) == ("stores.docs.path", 2)
    assert "a path has no tabs or line breaks" in problem.text
