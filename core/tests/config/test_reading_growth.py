"""Configurations of any size are read in time in proportion to it, and of many problems the first are told."""

import pytest
from flexchat.config import check, reach
from flexchat.config.document import MAX_PROBLEMS, MAX_VALUES, parse_document
from flexchat.config.reading import read_config
from flexchat.errors import ConfigError, closest, did_you_mean

pytestmark = pytest.mark.slow

LLM = '[llms.robot]\nprovider = "rehearsal"\ndefault_model = "r"\n'
RULE = '[[responses]]\nllm = "robot"\n'


def matching(condition):
    return lambda n: LLM + "".join(f"{RULE}match = {{ {condition.format(i)} }}\n" for i in range(n)) + RULE


KINDS = {
    "rules": lambda n: LLM + RULE * n,
    "unknown keys": lambda n: "".join(f"unknown_{i} = 1\n" for i in range(n)) + LLM + RULE,
    "keys in a rule": lambda n: LLM + RULE + "".join(f"max_token{i} = 1\n" for i in range(n)),
    "keys in a match": lambda n: LLM + RULE + "[responses.match]\n" + "".join(f"topix{i} = 1\n" for i in range(n)),
    "misspelt services": lambda n: (
        LLM
        + "".join(f'[llms.service_{i}]\nprovider = "x"\n' for i in range(n))
        + "".join(f'[[responses]]\nllm = "servise_{i}"\n' for i in range(n))
    ),
    "parts of topics": matching('topic_contains = "x{0}y"'),
    "topics": matching('topic = "x{0}y"'),
    "intents": lambda n: (
        matching('intent = "x{0}y"')(n)
        + '[intent]\nllm = "robot"\n[intent.detection]\n'
        + "".join(f'y{i} = "a"\n' for i in range(n))
    ),
    "collections": lambda n: (
        matching('collection = "x{0}"')(n)
        + "".join(f'[stores.s{i}]\nprovider = "memory"\ncollection = "c{i}"\n' for i in range(n))
    ),
    "written secrets": lambda n: (
        LLM
        + "".join(f'[llms.s{i}]\nprovider = "openai"\napi_key = "secretsecret{i}"\nfallbak{i} = 1\n' for i in range(n))
        + RULE
    ),
    "variables": lambda n: LLM + RULE + "".join(f'x{i} = "${{NO_SUCH_{i}}}"\n' for i in range(n)),
    "settings of the original": lambda n: "".join(
        f'[llms.s{i}]\nprovider = "openai"\nbaseUrl = "http://x"\ntemperature = 1.0\n{RULE}' for i in range(n)
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_reading_takes_time_in_proportion_to_the_text(kind, cpu_growth, monkeypatch):
    """Four times the text takes about four times as long, whatever is wrong with it."""
    # What each is compared with each for is given up after so many: the limits, brought into reach of a test.
    monkeypatch.setattr(reach, "_MAX_COMPARISONS", 1_000)
    monkeypatch.setattr(check, "_MAX_INTENTS", 1_000)

    def read(n):
        reading = read_config(parse_document(KINDS[kind](n), "flexchat.toml"), environ={})
        return reading.problems, reading.notes

    assert cpu_growth(read, 150, 600) < 9


def test_of_many_problems_the_first_are_told_and_the_others_counted():
    """In the order of the file; the last sentence says how many more there are."""
    text = "".join(f"unknown_{i:04} = 1\n" for i in range(1_000)) + LLM + RULE

    with pytest.raises(ConfigError) as caught:
        read_config(parse_document(text, "flexchat.toml")).finish()

    problems = caught.value.problems
    assert len(problems) == MAX_PROBLEMS + 1
    assert [problem.line for problem in problems[:3]] == [1, 2, 3]
    assert problems[-1].text == "there are 900 more, not listed here"


def test_of_many_notes_the_first_are_told_and_the_others_counted():
    """As problems are."""
    notes = read_config(parse_document(LLM + RULE * 200, "flexchat.toml")).notes

    assert len(notes) == MAX_PROBLEMS + 1
    assert "99 more" in notes[-1].text


def test_a_configuration_of_very_many_values_is_refused():
    """Before anything is made of them."""
    with pytest.raises(ConfigError, match="more than 100,000 values"):
        parse_document("x = [" + "1," * MAX_VALUES + "]", "flexchat.toml")


def test_looking_for_a_similar_name_is_quick_among_many(cpu_growth):
    """The price grows with the names up to a limit; the right one is found among them."""
    names = [f"service_{i}" for i in range(2_000)]

    assert did_you_mean("servise_1234", names) == " (did you mean 'service_1234'?)"
    assert closest("x" * 101, ["x" * 100]) == []
    assert cpu_growth(lambda n: did_you_mean("servise_7", (f"service_{i}" for i in range(n))), 2_000, 200_000) < 5
