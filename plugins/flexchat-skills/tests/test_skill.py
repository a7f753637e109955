"""SKILL.md: what the specification allows, judged beside its reference implementation."""

import pytest
from flexchat_skills.skill import MAX_SKILL_BYTES, hash_of, instructions_in, read_skill
from hypothesis import given, settings
from hypothesis import strategies as st
from skills_ref.errors import ParseError
from skills_ref.parser import parse_frontmatter
from skills_ref.validator import validate, validate_metadata

from examples import examples

from .conftest import REFUNDS, REPORTS


def read(content, folder="refunds", **others):
    """Read a skill; return it and what was reported."""
    reported = []
    data = content.encode() if isinstance(content, str) else content
    files = [("SKILL.md", data), *((name.replace("_", "."), text.encode()) for name, text in others.items())]
    return read_skill(folder, files, lambda *problem: reported.append(problem)), reported


def test_a_skill_has_what_its_front_matter_has():
    skill, reported = read(REFUNDS, a_md="more")

    assert reported == []
    assert (skill.name, skill.allowed_tools) == ("refunds", ("calculator",))
    assert skill.hashes == {"SKILL.md": hash_of(REFUNDS.encode()), "a.md": hash_of(b"more")}
    assert instructions_in(REFUNDS.encode()) == "# Refunds\n\nRead references/policy.md first."
    assert read(REPORTS, "reports")[0].description == "Writes a monthly report."


def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing():
    windows = b"\xef\xbb\xbf" + REFUNDS.replace("\n", "\r\n").encode()

    assert read(windows)[1] == []
    assert instructions_in(windows) == instructions_in(REFUNDS.encode())


@pytest.mark.parametrize(
    ("content", "line", "text"),
    [
        ("name: refunds\n", 1, "does not begin with front matter"),
        ("---\nname: refunds\n", 1, "does not begin with front matter"),
        ("---\nname: refunds\ndescription: a: b\n---\nx", 3, "not YAML: mapping values are not allowed here"),
        ("---\n- refunds\n---\nx", 2, "not a table"),
        ("---\nname: refunds\ndescription: x\ndescription: y\n---\nx", 4, "description stands here twice"),
        ("---\nname: refunds\ndescription: !!python/name:os.system\n---\nx", 3, "tags are not allowed"),
        ("---\nname: refunds\n---\nx", 1, "description is missing"),
        ("---\nname: refunds\ndescription: ''\n---\nx", 3, "description is empty"),
        ("---\nname: 7\ndescription: x\n---\nx", 2, "name must be a text: put it in quotes"),
        (f"---\nname: refunds\ndescription: {'x' * 1025}\n---\nx", 3, "1,025 characters, at most 1,024"),
        ("---\nname: refunds\ndescription: x\nallowed_tools: y\n---\nx", 4, "(did you mean 'allowed-tools'?)"),
        ("---\nname: refunds\ndescription: x\nauthor: y\n---\nx", 4, "put it under metadata"),
        ("---\nname: refunds\ndescription: x\nmetadata: y\n---\nx", 4, "metadata is a table of texts"),
        ("---\nname: refunds\ndescription: x\nallowed-tools: [y]\n---\nx", 4, "allowed-tools must be one text"),
        ("---\nname: refund\ndescription: x\n---\nx", 2, "name is 'refund', but the folder is 'refunds'"),
        ("---\nname: refunds\ndescription: x\n---\n", None, "no instructions"),
        ("---\nname: refunds\ndescription: x\n---\na\nb\u202ec", 6, "cannot be seen (U+202E)"),
        ("---\nname: refunds\ndescription: x\U000e0041\n---\na", 3, "cannot be seen (U+E0041)"),
        (b"---\nname: refunds\n\xff", 3, "not UTF-8"),
        (b"x" * (10 * 2**20), None, "too large (10,485,760 bytes, at most 65,536)"),
        ("---\n" + "a" * 20_000 + "\n---\n", 1, "more than 16,384 characters"),
        ("---\na: &a [x]\nb: [" + "*a," * 2000 + "]\n---\nx", 3, "not YAML: there are more than 1,000 values"),
    ],
)
def test_each_fault_has_its_line(content, line, text):
    skill, reported = read(content)

    assert skill is None
    assert [each for each in reported if each[1] == line and text in each[2]], reported


def test_other_files_may_not_hide_anything_either():
    skill, reported = read(REFUNDS, a_md="first\nsecond\u200bline")

    assert skill is None
    assert reported == [("a.md", 2, "there are characters that cannot be seen (U+200B): delete them")]


def test_files_that_are_not_text_are_left_out():
    skill = read_skill("refunds", [("SKILL.md", REFUNDS.encode()), ("logo.png", b"\x89PNG\xff")], print)

    assert [*skill.hashes] == ["SKILL.md"]


@pytest.mark.parametrize("name", ["refunds", "a-b", "a--b", "-a", "a-", "A", "ä-ö", "a b", "a_b", "日本", "x" * 65])
def test_names_are_judged_as_by_the_reference_implementation(name):
    content = f"---\nname: {name}\ndescription: x\n---\nx"

    assert (read(content, name)[0] is not None) == (validate_metadata({"name": name, "description": "x"}) == [])


FIELDS = st.dictionaries(
    st.sampled_from(["name", "description", "license", "compatibility", "allowed-tools", "author"]),
    st.one_of(st.sampled_from(["refunds", "x", "y" * 501, "z" * 1025]), st.text("abc- ", min_size=1, max_size=9)),
)


@settings(max_examples=examples(200))
@given(FIELDS)
def test_front_matter_is_judged_as_by_the_reference_implementation(fields):
    """Except that a text in quotes may be empty or blank for it in fields without a rule of theirs."""
    content = "---\n" + "".join(f'{key}: "{value}"\n' for key, value in fields.items()) + "---\nx"
    try:
        faults = validate_metadata(parse_frontmatter(content)[0]) or (fields["name"].strip() != "refunds")
    except ParseError as error:
        faults = [error]
    is_blank = any(not value.strip() for key, value in fields.items())

    skill, _ = read(content)

    assert is_blank or (skill is not None) == (not faults)


def test_the_skills_of_these_tests_are_valid_for_the_reference_implementation(folder):
    assert [validate(folder / "skills" / name) for name in ("refunds", "reports")] == [[], []]


def test_a_skill_of_the_largest_size_is_read():
    long = REPORTS + "x" * (MAX_SKILL_BYTES - len(REPORTS))

    assert read(long, "reports")[1] == []
