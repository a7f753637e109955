"""The same configuration, written as TOML, JSON or YAML, in one file or in several: the same data, at its own lines."""

import io
import json
import tempfile
from pathlib import Path

import pytest
import tomlkit
from flexchat.config.document import parse_document
from flexchat.config.including import with_included
from flexchat.config.reading import read_config
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

WORDS = [
    "on",
    "no",
    "~x",
    "2024-01-01",
    "0o7",
    "1_0",
    "a: b",
    "# x",
    "- a",
    "{{user_message}}",
    "\\d+",
    "it's",
    '"',
    "é",
]
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True).filter(lambda name: name not in ("include", "comment"))
SCALARS = (
    st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(-1e9, 1e9).filter(lambda x: x != 0)
    | st.sampled_from(WORDS)
    | st.text(st.characters(categories=["L", "Nd", "P", "Zs"]), max_size=8)
)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(NAMES, v, max_size=3), max_leaves=8)
TABLES = st.dictionaries(NAMES, VALUES | st.lists(st.dictionaries(NAMES, VALUES, max_size=3), max_size=3), max_size=5)


def as_yaml(data):
    text = io.StringIO()
    yaml = YAML()
    yaml.allow_unicode = True
    yaml.width = 10_000
    yaml.dump(data, text)
    return text.getvalue()


FORMS = {
    "c.toml": tomlkit.dumps,
    "c.json": lambda data: json.dumps(data, indent=1, ensure_ascii=False),
    "c.yaml": as_yaml,
}


def keys(data, place=()):
    """Yield the places of a document's keys."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(key, str):
            yield (*place, key)
        if isinstance(value, (dict, list)):
            yield from keys(value, (*place, key))


@pytest.mark.slow
@given(TABLES)
def test_each_form_reads_to_the_same_data(data):
    """And each key's line has that key."""
    for name, written in FORMS.items():
        text = written(data)
        document = parse_document(text, name)

        assert document.data == data, name
        assert not document.problems
        lines = text.split("\n")
        for place in keys(data):
            assert place[-1] in lines[document.lines[place] - 1], (name, place)


CONFIG = {
    "llms": {"bot": {"provider": "scripted", "default_model": "m", "timeout_s": 1.5}},
    "limits": {"message_chars": 50},
    "responses": [
        {"match": {"topic": "x"}, "llm": "bot", "temperature": 0.5, "stop": ["on", "no"]},
        {"llm": "bot", "prompt": "Be brief.\nPlease: {{user_message}}"},
    ],
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("llms", "bot", "retries"), 11, "llms.bot.retries: "),
        (("limits", "message_chars"), "50", "limits.message_chars: expected a whole number"),
        (("responses", 0, "llm"), "bto", "responses[0].llm: no LLM is called 'bto' (did you mean 'bot'?)"),
        (("responses", 1, "temperatur"), 1, "responses[1]: unknown key 'temperatur'"),
        (("respones",), [], "unknown key 'respones' (did you mean 'responses'?)"),
    ],
)
def test_each_form_has_the_same_problems_at_its_own_lines(tmp_path, name, place, value, said):
    data = json.loads(json.dumps(CONFIG))
    table = data
    for key in place[:-1]:
        table = table[key]
    table[place[-1]] = value
    file = tmp_path / name
    file.write_text(FORMS[name](data), encoding="utf-8")

    problems = read_config(file).problems

    assert [problem.text for problem in problems if said in str(problem)], problems
    assert len(problems) == 1
    assert str(place[-1]) in file.read_text(encoding="utf-8").split("\n")[problems[0].line - 1]


def read_whole(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        document = parse_document(files["main.json"], Path(folder, "main.json"))
        whole = with_included(document)
        return whole, {place: Path(whole.files.get(place, whole.source)).name for place in whole.lines}


def split(data, cut):
    """Return two tables that are the data together: each item of a table goes to one, each list is cut in two."""
    first, second = {}, {}
    for key, value in data.items():
        if isinstance(value, dict):
            first[key], second[key] = split(value, cut)
        elif isinstance(value, list):
            at = cut(len(value) + 1)
            first[key], second[key] = value[:at], value[at:]
        else:
            (first, second)[cut(2)][key] = value
    return first, second


@given(TABLES, st.randoms(use_true_random=False), st.sampled_from(sorted(FORMS)))
def test_two_files_are_the_one_they_were_split_from(data, random, form):
    """Whichever part stands in which; and each key is said to be in the file and line that have it."""
    first, second = split(data, random.randrange)
    files = {"main.json": FORMS["c.json"]({"include": [form], **first}), form: FORMS[form](second)}

    whole, found_in = read_whole(files)

    assert not whole.problems
    assert {key: value for key, value in whole.data.items() if key != "include"} == data
    for place in keys(data):
        assert place[-1] in files[found_in[place]].split("\n")[whole.lines[place] - 1]
