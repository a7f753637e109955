"""Real answers of a small model, good and sloppy, are understood."""

import json
from pathlib import Path

import pytest
from flexchat.turn.detection import Topic, read_category, read_topic

RECORDED = json.loads((Path(__file__).parent / "recorded_answers.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("told", RECORDED["topics"], ids=lambda told: told["topic"])
def test_a_recorded_answer_tells_its_topic(told):
    found = read_topic(told["answer"], told["message"], told["topic_so_far"])

    assert found == Topic(told["topic"], told["status"])


@pytest.mark.parametrize("told", RECORDED["intents"], ids=lambda told: str(told["category"]))
def test_a_recorded_answer_names_its_category(told):
    assert read_category(told["answer"], RECORDED["categories"]) == told["category"]
