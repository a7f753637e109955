"""YAML 1.2 as data with lines: what is read, what is refused, and in what time."""

import contextlib
import io
import json
import time

import pytest
from flexchat.config.document import document_of, parse_document
from flexchat.config.yaml_reading import YamlError, read_yaml
from flexchat.errors import ConfigError
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

TEXT = """\
# a configuration
llms:
  bot: &bot
    provider: scripted
    timeout_s: 1.5
  other:
    <<: *bot
    provider: "mock"   # its own
responses:
- llm: bot
  prompt: |
    You are
    brief.
  stop: [on, no, 2024-01-01, "1", 0o17, 1_000, 0x1F, ~]
- *bot
"""


def read(text):
    return read_yaml(text, max_depth=64, max_values=100_000)


def test_what_is_written_is_read_as_yaml_1_2_says():
    """on, no, dates and numbers with underscores are texts."""
    data, lines, twice = read(TEXT)

    bot = {"provider": "scripted", "timeout_s": 1.5}
    assert data["llms"] == {"bot": bot, "other": {"provider": "mock", "timeout_s": 1.5}}
    assert data["responses"][0]["stop"] == ["on", "no", "2024-01-01", "1", 15, "1_000", 31, None]
    assert data["responses"][0]["prompt"] == "You are\nbrief.\n"
    assert data["responses"][1] == bot
    assert (lines["llms", "bot", "timeout_s"], lines["llms", "other", "timeout_s"]) == (5, 7)
    assert (lines["responses", 0, "stop", 3], lines["responses", 1]) == (14, 15)
    assert twice == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\n---\nb: 2\n", "a.yaml:2: this is not a YAML configuration: a second document begins here"),
        ("%YAML 1.1\n---\na: on\n", "only YAML 1.2 is read"),
        (
            "a: !!python/object/apply:os.system [id]\n",
            "a.yaml:1: this is not a YAML configuration: tags are not allowed",
        ),
        ("x: 1\na: !secret key\n", "a.yaml:2: this is not a YAML configuration: tags are not allowed"),
        ("a: &x [*x]\n", "the alias *x stands within its own value"),
        ("a: *nowhere\n", "the alias *nowhere has no anchor before it"),
        ("? [a, b]\n: 1\n", "a key is a text"),
        (
            "a:\n\t- x\n",
            "a.yaml:2: this is not a YAML configuration: while scanning for the next token found character",
        ),
        ("a: b: c\n", "put a text that contains ': ' in quotes"),
        ("a: {<<: 1}\n", "<< takes a table"),
        ("- a\n", "a configuration is one table of keys and values, not a list"),
        ("just text\n", "a configuration is one table of keys and values, not a text"),
        ("a: 1\nb: 2\na: 3\n", "a.yaml:3: a: the key is written twice, first on line 1"),
        ("a: .nan\n", "a.yaml:1: a: expected a finite number"),
        ("a: 1e999\n", "a.yaml:1: a: expected a finite number"),
        ("a: [" * 80, "nested more than 64 deep"),
        ("b: 1\r\na: \x01\n", "a.yaml:2: this is not a YAML configuration: unacceptable character"),
        ('b: 1\na: "\\UFFFFFFFF"\n', "a.yaml:2: this is not a YAML configuration: no character has the number"),
        ('a: "\\U00110000"\n', "no character has the number"),
        (
            "b: 1\r\n# one\u2028two\n",
            "a.yaml:2: this is not a YAML configuration: there is an invisible character (\\u2028)",
        ),
        ("a: x\x85\n", "there is an invisible character (\\x85): delete it"),
        ("a: !!str 5\n", "write the value without !!str"),
        ("a: {{user_message}}\n", "put a text that begins with { or [ in quotes"),
        ('a: "\\d+"\n', "put a text with backslashes in single quotes"),
        ('a: 1\nb: "x\nc: 2\n', "a.yaml:2: this is not a YAML configuration: while scanning a quoted scalar"),
        ("a:\n  b: 1\n c: 1\n", "a.yaml:3: this is not a YAML configuration: while parsing a block mapping"),
        ("a: 0x" + "f" * 4_000, "a.yaml:1: a: a number is too long to be read"),
        ("a: " + "x" * 1024 * 1024, "a YAML configuration has at most 1,024 KiB"),
    ],
)
def test_what_is_not_data_is_refused_with_its_line(text, said):
    """And a hint, where one helps."""
    try:
        problems = parse_document(text, "a.yaml").problems
    except ConfigError as error:
        problems = error.problems

    assert said in "\n".join(map(str, problems))


def bomb(levels):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.timed
@pytest.mark.parametrize(
    "text",
    [
        bomb(30),
        bomb(30).replace("[", "{k: ").replace("]", "}").replace(", ", ", k"),
        "[" * 100_000,
        "{" * 100_000,
        "a: " + "x " * 250_000,
        "? " * 100_000,
        "- " * 100_000,
        "a: |\n" + "  line\n" * 60_000,
        "&" + "a" * 200_000 + " b: *" + "a" * 200_000,
        "#" * 900_000,
        "a: '" + "x\n\n" * 100_000,
        "\n".join(f"k{n}: v" for n in range(20_000)),
    ],
    ids=lambda text: text[:12],
)
@pytest.mark.slow
def test_hostile_texts_end_soon(text):
    """In processor time of seconds, whatever is said of them."""
    began = time.thread_time()
    with contextlib.suppress(YamlError):
        read(text)
    assert time.thread_time() - began < 6


@given(st.text(alphabet=st.sampled_from("ab:-?[]{},&*!|>'\"%@` \n\t#0.<~\\é"), max_size=60))
def test_any_text_is_data_or_a_sentence(text):
    """No other exception."""
    with contextlib.suppress(ConfigError):
        parse_document(text, "a.yaml")


NAMES = st.text(st.characters(categories=["L", "Nd"], include_characters="-_ "), min_size=1, max_size=6)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
    | st.sampled_from(
        ["on", "no", "~", "null", "2024-01-01", "0o7", "1_0", "a: b", "# x", "<<", "", " x ", "*a", "&a", "- a"]
    )
)
TABLES = st.dictionaries(
    NAMES,
    st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(NAMES, v, max_size=3), max_leaves=8),
)


@given(TABLES)
def test_what_a_writer_writes_is_read_back(data):
    """JSON is YAML; and ruamel.yaml's own writer, in blocks."""
    block = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.dump(data, block)

    assert read(json.dumps(data))[0] == data
    assert read(block.getvalue())[0] == data


@given(TABLES.map(lambda data: {key: value for key, value in data.items() if value is not None}))
def test_a_file_is_the_same_configuration_in_yaml_and_json(data):
    """With a line for everything that has a place."""
    as_yaml = parse_document(json.dumps(data, indent=1), "a.yaml")
    as_json = parse_document(json.dumps(data, indent=1), "a.json")

    assert as_yaml.data == as_json.data == document_of(data).data
    assert as_yaml.lines == as_json.lines


def test_without_the_library_the_message_says_what_to_install(monkeypatch):
    """It is an extra."""
    monkeypatch.setitem(__import__("sys").modules, "ruamel.yaml", None)

    with pytest.raises(ConfigError, match=r"pip install '\./core\[yaml\]'"):
        parse_document("a: 1", "a.yaml")
