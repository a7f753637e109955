"""The examples are what they say."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
CONFIGS = sorted(path.name for path in EXAMPLES.iterdir() if path.suffix in (".toml", ".yaml", ".json"))


@pytest.mark.parametrize("name", CONFIGS)
def test_every_example_passes_check(run, monkeypatch, name):
    monkeypatch.setenv("GEMINI_API_KEY", "k-abcdefgh")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefgh")

    ran = run("check", str(EXAMPLES / name))

    assert ran.status == 0
    assert "is fine" in ran.out
    assert "note:" not in ran.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "answer"),
    [("What is the weather in Paris?", "light rain"), ("What is the weather in Atlantis?", "no city called Atlantis")],
)
@pytest.mark.parametrize("name", ["weather.toml", "weather.yaml"])
def test_the_weather_example_answers_by_city(run, name, question, answer):
    ran = run("ask", "--config", str(EXAMPLES / name), question)

    assert ran.status == 0
    assert answer in ran.out


def test_the_library_example_runs_offline(capsys):
    runpy.run_path(str(EXAMPLES / "python_tools.py"), run_name="__main__")

    out = capsys.readouterr().out
    assert "6.5" in out
    assert "2.8" in out
