"""Laws of the scanners that find the line of everything in a TOML or JSON text."""

import json
import random

import tomli
from flexchat.config.document import walk
from flexchat.config.positions import locate_json, locate_toml
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

KEYS = st.sampled_from(["a", "b", "a-b", "1", "x y", "é", 'q"', "back\\slash", "", "tab\t", "[x]", "a.b", "#", "'"])
SCALARS = (
    st.booleans()
    | st.integers(-(10**6), 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=8)
    | st.sampled_from(["a\nb", '"""', "'''", "# no comment", "[x]", "a = 1\nb = 2", "\\", '""', "''", "}", "]"])
)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=12)
TABLES = st.dictionaries(KEYS, VALUES, max_size=4)


class Writer:
    """Writes text and remembers on which line each place was first written."""

    def __init__(self, seed: int) -> None:
        self.style = random.Random(seed)
        self.text = ""
        self.lines = {}

    @property
    def line(self) -> int:
        return self.text.count("\n") + 1

    def mark(self, place):
        self.lines.setdefault(place, self.line)

    def space(self) -> None:
        self.text += self.style.choice(["", "", " ", "\t", "\n", "\n  \n"])


class JsonWriter(Writer):
    def value(self, value, place=()) -> None:
        self.space()
        if isinstance(value, dict | list):
            items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
            self.text += "{" if isinstance(value, dict) else "["
            for number, (key, item) in enumerate(items):
                self.text += "," if number else ""
                self.space()
                if isinstance(value, dict):
                    self.mark((*place, key))
                    self.text += json.dumps(key, ensure_ascii=self.style.random() < 0.5)
                    self.space()
                    self.text += ":"
                    self.value(item, (*place, key))
                else:
                    self.list_item(item, (*place, key))
            self.space()
            self.text += "}" if isinstance(value, dict) else "]"
        else:
            self.text += json.dumps(value)
        self.space()

    def list_item(self, item, place) -> None:
        """Write an element without blanks before it: its line is the one that is marked."""
        self.mark(place)
        rest = JsonWriter(self.style.randrange(10**6))
        rest.value(item, place)
        lead = len(rest.text) - len(rest.text.lstrip(" \t\n"))
        skipped = rest.text[:lead].count("\n")
        offset = self.line - 1 - skipped
        for inner, line in rest.lines.items():
            self.lines.setdefault(inner, line + offset)
        self.text += rest.text[lead:]


class TomlWriter(Writer):
    def key(self, key: str) -> str:
        if key and key.isascii() and key.replace("-", "").isalnum() and self.style.random() < 0.7:
            return key
        if key and key.isprintable() and "'" not in key and self.style.random() < 0.5:
            return f"'{key}'"
        return toml_string(key)

    def comment(self) -> None:
        self.text += self.style.choice(["", "", "\n", "# [x]\n", '  # a = 1 "\n'])

    def end(self) -> None:
        self.text += self.style.choice(["\n", " # it's [[x]]\n", "\r\n", "\n\n"])

    def document(self, table, place=()) -> None:
        later = []
        for key, value in table.items():
            style = self.style.random()
            here = (*place, key)
            if isinstance(value, dict) and style < 0.6:
                later.append((here, value))
            elif isinstance(value, dict) and value and style < 0.8:
                self.dotted(place, [key], value)
            elif value and isinstance(value, list) and all(isinstance(v, dict) for v in value) and style < 0.7:
                later.append((here, value))
            else:
                self.mark(here)
                self.text += f"{self.key(key)} = "
                self.value(value, here)
                self.end()
            self.comment()
        for here, value in later:
            if isinstance(value, dict):
                self.header(here, is_list=False, at=value)
            else:
                for index, item in enumerate(value):
                    self.header((*here, index), is_list=True, at=item)

    def header(self, place, *, is_list, at) -> None:
        names = [part for part in place if isinstance(part, str)]
        implicit = not is_list and at and all(isinstance(v, dict) for v in at.values()) and self.style.random() < 0.3
        if implicit:
            for key, item in at.items():
                self.header((*place, key), is_list=False, at=item)
            return
        for length in range(1, len(place) + 1):
            self.mark(place[:length])
        dots = self.style.choice([".", " . "]).join(self.key(name) for name in names)
        self.text += f"[[ {dots} ]]" if is_list else f"[{dots}]"
        self.end()
        self.document(at, place)

    def dotted(self, place, keys, table) -> None:
        for key, value in table.items():
            if isinstance(value, dict) and value and self.style.random() < 0.7:
                self.dotted(place, [*keys, key], value)
                continue
            for length in range(1, len(keys) + 2):
                self.mark((*place, *[*keys, key][:length]))
            self.text += ".".join(self.key(k) for k in [*keys, key]) + "="
            self.value(value, (*place, *keys, key))
            self.end()

    def value(self, value, place) -> None:
        if isinstance(value, list):
            self.text += "["
            for index, item in enumerate(value):
                self.space()
                self.comment()
                self.mark((*place, index))
                self.value(item, (*place, index))
                self.space()
                self.text += "," if index < len(value) - 1 or self.style.random() < 0.5 else ""
            self.text += self.style.choice(["]", "\n]", " # ]\n]"])
        elif isinstance(value, dict):
            self.text += "{"
            for number, (key, item) in enumerate(value.items()):
                self.text += ", " if number else " "
                self.mark((*place, key))
                self.text += f"{self.key(key)} = "
                self.value(item, (*place, key))
            self.text += " }"
        elif isinstance(value, str):
            self.text += self.string(value)
        else:
            self.text += json.dumps(value)

    def string(self, value: str) -> str:
        plain = all(c.isprintable() or c in "\n\t" for c in value)
        style = self.style.random()
        if plain and "'''" not in value and not value.endswith("'") and style < 0.3:
            return f"'''\n{value}'''"
        if plain and "\n" not in value and "'" not in value and style < 0.5:
            return f"'{value}'"
        if style < 0.75:
            body = toml_string(value)[1:-1].replace("\\n", "\n")
            return f'"""\n{body}"""' if not value.count("\\") else toml_string(value)
        return toml_string(value)


def toml_string(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}
    return '"' + "".join(escapes.get(c) or (c if c.isprintable() else f"\\U{ord(c):08X}") for c in text) + '"'


@settings(max_examples=examples(150), deadline=None)
@given(TABLES, st.integers(0, 10**6))
def test_every_place_of_a_toml_text_is_found_where_it_was_written(table, seed):
    """For any data in any style of writing, the scanner knows the line of each key, header and element."""
    writer = TomlWriter(seed)
    writer.document(table)

    assert tomli.loads(writer.text) == table
    assert locate_toml(writer.text) == writer.lines
    assert {place for place, _ in walk(table)} == set(writer.lines)


@settings(max_examples=examples(150), deadline=None)
@given(TABLES, st.integers(0, 10**6))
def test_every_place_of_a_json_text_is_found_where_it_was_written(table, seed):
    """For any data in any layout, the scanner knows the line of each key and element."""
    writer = JsonWriter(seed)
    writer.value(table)

    lines, twice = locate_json(writer.text)

    assert json.loads(writer.text) == table
    assert lines == writer.lines
    assert twice == []
    assert {place for place, _ in walk(table)} == set(lines)


TOML_PIECES = st.sampled_from(
    ['a', "b", ".", "=", " ", "\n", '"', "'", '"""', "'''", "[", "]", "[[", "]]", "{", "}", ",", "#", "1", "\\", "\\n",
     "1979-05-27 07:32:00", "inf", "0x1F", "true", "\r\n", "\t", 'a = 1\n', '[a]\n', '[[b]]\n', 'c = """\n', "é"]
)  # fmt: skip


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(TOML_PIECES, max_size=25).map("".join) | st.text(max_size=40))
def test_the_toml_scanner_takes_any_text(text):
    """It never raises, and what the parser accepts is found completely."""
    lines = locate_toml(text)

    try:
        data = tomli.loads(text)
    except ValueError:
        return
    assert {place for place, _ in walk(data)} == set(lines)


def test_multi_line_values_do_not_shift_what_follows():
    """Strings and arrays over many lines, with what looks like structure inside them."""
    text = (
        '''a = """
[x]
b = 1 ""\\
"""""
c = [ # one
  "]", [
  2,
  ],
]
[[t]]
"k.k".'l' = { m = '''
        + """'''
}
''', n = 1979-05-27 07:32:00 }
[[t]]
[t.u]
"""
    )

    assert locate_toml(text) == {
        ("a",): 1,
        ("c",): 5,
        ("c", 0): 6,
        ("c", 1): 6,
        ("c", 1, 0): 7,
        ("t",): 10,
        ("t", 0): 10,
        ("t", 0, "k.k"): 11,
        ("t", 0, "k.k", "l"): 11,
        ("t", 0, "k.k", "l", "m"): 11,
        ("t", 0, "k.k", "l", "n"): 13,
        ("t", 1): 14,
        ("t", 1, "u"): 15,
    }


def test_a_key_written_twice_is_told():
    """JSON parsers take the last one silently."""
    text = '{\n"a": 1,\n"b": {"c": 1,\n"c": 2},\n"\\u0061": 3}'

    lines, twice = locate_json(text)

    assert twice == [(("b", "c"), 3, 4), (("a",), 2, 5)]
    assert lines[("a",)] == 5
