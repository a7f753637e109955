"""${NAME} in texts."""

import pytest
from flexchat.config.document import ConfigDocument
from flexchat.config.reading import read_config
from flexchat.config.variables import expand_variables
from hypothesis import given
from hypothesis import strategies as st

ENVIRON = {"KEY": "sk-12345678", "HOST": "h", "EMPTY": ""}


def expanded(text: str) -> str:
    return expand_variables(ConfigDocument(data={"a": [text]}), ENVIRON.get).document.data["a"][0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${KEY}", "sk-12345678"),
        ("http://${HOST}:1/${HOST}", "http://h:1/h"),
        ("$${KEY}", "${KEY}"),
        ("$$${KEY}", "$${KEY}"),
        ("${EMPTY}", ""),
        ("${EMPTY:-other}", "other"),
        ("${UNSET:-http://x:1}", "http://x:1"),
        ("${UNSET:-}", ""),
        ("${KEY:-other}", "sk-12345678"),
        ("${KEY:other}", "${KEY:other}"),
        ("$KEY", "$KEY"),
        ("${}", "${}"),
        ("${ KEY }", "${ KEY }"),
        ("{{user_message}} costs $5", "{{user_message}} costs $5"),
    ],
)
def test_placeholders_are_replaced_and_nothing_else(text, value):
    assert expanded(text) == value


def test_a_variable_that_is_not_set_is_a_problem_that_names_it_and_its_place():
    document = ConfigDocument(
        source="c.toml", data={"llms": {"gpt": {"api_key": "${NO_KEY}"}}}, lines={("llms", "gpt"): 3}
    )

    done = expand_variables(document, {}.get)

    text = "environment variable NO_KEY is not set: export it first (for the text itself write $${NO_KEY})"
    assert [str(p) for p in done.problems] == [f"c.toml:3: llms.gpt.api_key: {text}"]
    assert done.document.data == document.data


def test_values_from_the_environment_are_secrets_unless_they_are_short():
    """A word of one letter would be masked out of every sentence. Defaults stand in the file and are none."""
    done = expand_variables(ConfigDocument(data={"a": "${KEY}", "b": "${HOST}", "c": "${X:-abcdefgh}"}), ENVIRON.get)

    assert done.secrets == {"sk-12345678"}
    assert done.paths == {("a",), ("b",)}


def test_keys_are_not_replaced():
    assert expand_variables(ConfigDocument(data={"${KEY}": 1}), ENVIRON.get).document.data == {"${KEY}": 1}


def test_what_a_variable_holds_is_not_looked_at_again():
    """A key that contains a placeholder is used as it is."""
    done = expand_variables(ConfigDocument(data={"a": "${A}"}), {"A": "${B}", "B": "b"}.get)

    assert done.document.data == {"a": "${B}"}


@given(st.text(alphabet="${}:-AB_ x", max_size=30))
def test_any_text_is_expanded_without_an_error(text):
    """And one without a placeholder stays what it is."""
    done = expand_variables(ConfigDocument(data={"a": text}), {"A": "1"}.get)

    assert done.document.data["a"] == text or "${" in text


def test_a_variable_that_is_not_set_is_the_only_problem_of_its_key(tmp_path):
    """Its placeholder fits no number and no address; other keys are still checked."""
    file = tmp_path / "c.toml"
    file.write_text(
        '[llms.m]\nprovider = "openai"\ndefault_model = "m"\ntimeout_ms = "${UNSET_NUMBER}"\n'
        '[[responses]]\nllm = "m"\n[limits]\nturn_timeout_ms = "${UNSET_LIMIT}"\nmessage_chars = "x"\n'
    )

    paths = [problem.path for problem in read_config(file).problems]

    assert sorted(paths) == ["limits.message_chars", "limits.turn_timeout_ms", "llms.m.timeout_ms"]
