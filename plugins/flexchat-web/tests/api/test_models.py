"""The list of models."""

import asyncio

from flexchat import ModelInfo
from flexchat_sdk import ProviderConnectionError


def lists(model, *answers):
    """Let a model's service list these, one answer after the other; returns how often it was asked."""
    asked = []

    async def list_models():
        asked.append(1)
        answer = answers[min(len(asked), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return await answer() if callable(answer) else answer

    model.list_models = list_models
    return asked


async def test_models_tell_what_they_can_and_what_is_known_of_them(told):
    """The model list that the seed's page reads (TC-86, TC-100, C14)."""
    model = told.says("x")
    lists(
        model,
        (
            ModelInfo(id="r1", capabilities=frozenset({"tools", "vision"}), context_length=8192, digest="sha"),
            ModelInfo(id="mute:7b", name="Mute", capabilities=frozenset({"chat"})),
            ModelInfo(id="silent"),
        ),
    )
    found = (await (await told.client()).get("/api/models/list")).json()
    assert found["errors"] == []
    first, mute, silent = found["models"]
    assert (first["id"], first["llm"], first["model"], first["default"]) == ("robot/r1", "robot", "r1", True)
    assert first["capabilities"] == ["function-calling", "tools", "vision"]
    assert (first["context_length"], first["digest"]) == (8192, "sha")
    assert first["validation"]["tested"] is False
    assert first["validation"]["verdict"] == "undecided"
    assert (mute["capabilities"], mute["name"], mute["default"]) == (["chat"], "Mute", False)
    assert silent["capabilities"] == ["function-calling"]  # it does not tell, so it may


async def test_a_service_that_does_not_answer_is_told_and_hides_nothing(told):
    """Its error stands beside the models, and the models that rules name can still be tried."""
    lists(told.says("x"), ProviderConnectionError("cannot be reached: token=abcdefghij"))
    found = (await (await told.client()).get("/api/models/list")).json()
    assert [model["id"] for model in found["models"]] == ["robot/r1"]
    assert found["errors"] == [{"llm": "robot", "error": "cannot be reached: token=***"}]


async def test_a_service_that_hangs_does_not_hang_the_list(told, monkeypatch):
    """Each service has some seconds."""
    monkeypatch.setattr("flexchat_web.api.models.LIST_S", 0.05)
    lists(told.says("x"), asyncio.Event().wait)
    found = (await (await told.client()).get("/api/models/list")).json()
    assert found["errors"] == [{"llm": "robot", "error": "the list of models did not arrive within 0.05 s"}]


async def test_the_list_is_kept_for_a_while_and_refreshed_on_request(told):
    """Services are not asked for each look at the page."""
    asked = lists(told.says("x"), (ModelInfo(id="a"),), (ModelInfo(id="b"),))
    client = await told.client()
    for path, ids in [("", ["a", "r1"]), ("", ["a", "r1"]), ("?refresh=true", ["b", "r1"])]:
        found = (await client.get(f"/api/models/list{path}")).json()
        assert [model["model"] for model in found["models"]] == ids
    assert len(asked) == 2
