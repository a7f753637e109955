"""docs/prices.md says what is so: its examples run and print what stands beside them, and its config can be read."""

import asyncio
import re
import tomllib
from pathlib import Path

import pytest
from flexchat import FlexChat
from flexchat.config.reading import read_config

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "prices.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TOML = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", PYTHON, ids=range(len(PYTHON)))
def test_its_examples_print_what_they_say(example, capsys):
    """The comment beside each print is its output."""
    names = {}
    exec(example, names)
    asyncio.run(names["main"]())

    said = re.findall(r"print\(.*\)  # (.*)", example)
    assert said
    assert capsys.readouterr().out.splitlines() == said


async def test_its_configuration_can_be_read_and_prices_a_turn():
    """The table of one model, and that of all others."""
    (table,) = map(tomllib.loads, (re.sub(r"^   ", "", text, flags=re.MULTILINE) for text in TOML))
    base = {
        "llms": {"gpt": {"provider": "scripted"}, "local": {"provider": "scripted"}},
        "responses": [{"llm": "gpt", "model": "gpt-5.2"}],
    }
    for name, entry in table["llms"].items():
        base["llms"][name] |= entry
    assert read_config(base).problems == []
    async with FlexChat.from_config(base) as chat:
        known = chat.llms["gpt"].price_of("gpt-5.2")
        assert (str(known.price.input), known.window, known.price.source) == ("1.75", 400_000, "config")
        assert chat.llms["local"].price_of("anything").price.output == 0
        assert chat.llms["gpt"].price_of("gpt-5.3") is None


def test_the_defaults_it_names_are_the_defaults():
    """Beside each key that may be left out."""
    (table,) = TOML
    assert re.findall(r"(\w+) = \S+ +# default: as (\w+)", table) == [
        ("cached_input", "input"),
        ("cache_write", "input"),
        ("reasoning", "output"),
    ]
