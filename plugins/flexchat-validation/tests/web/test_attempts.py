"""Single attempts and plans over HTTP."""

import pytest
from flexchat_testing import calls

CASES = [
    {"name": "weather", "message": "Weather in Rome?", "calls": [{"tool": "get_weather"}]},
    {"name": "greet", "message": "hello", "no_call": True},
]


@pytest.fixture
def eager(told):
    """A model that calls a tool whatever it is asked."""
    told.tables["validation"]["cases"] = CASES
    told.says(
        lambda messages, options: calls(("get_weather", {"city": "Rome"})) if messages[-1].role == "user" else "!"
    )
    return told


async def run(client, **body):
    started = await client.post("/api/validation/runs", json=body)
    await client.get(f"{started.headers['location']}/events")  # until it ends
    return started.json()


async def test_the_attempts_behind_a_cell_are_listed_the_last_one_first(eager):
    """By model and case, with what was wrong and the calls; a case of another text makes them stale."""
    client = await eager.client()
    ran = await run(client, runs=2)
    (model,) = ran["models"]
    failed = (await client.get("/api/validation/attempts", params={"model_id": model, "case": "greet"})).json()[
        "attempts"
    ]
    assert [(one["outcome"], one["repetition"], one["stale"]) for one in failed] == [
        ("failed", 1, False),
        ("failed", 0, False),
    ]
    assert failed[0]["problems"]
    assert failed[0]["calls"][0]["tool"] == "get_weather"
    assert len((await client.get("/api/validation/attempts")).json()["attempts"]) == 4
    assert len((await client.get("/api/validation/attempts?limit=1")).json()["attempts"]) == 1
    assert (await client.get("/api/validation/attempts?model_id=no/model")).json() == {"attempts": []}


async def test_a_plan_counts_the_tests_and_begins_nothing(eager):
    """The cost comes from what earlier tests cost; without any it is not known."""
    client = await eager.client()
    plan = (await client.post("/api/validation/plan", json={"cases": ["greet"], "runs": 16})).json()
    assert (plan["planned"], plan["cases"], plan["runs"], plan["cost"]) == (16, ["greet"], 16, None)
    assert (await client.get("/api/validation/runs")).json() == {"runs": []}
    assert (await client.post("/api/validation/plan", json={"runs": 0})).status_code == 400


async def test_a_plan_estimates_the_cost_from_the_configured_prices(eager):
    """Before any test; a model without a price is named, and the others are still added up."""
    eager.tables["llms"]["robot"]["prices"] = {"r1": {"input": 1, "output": 1}}
    client = await eager.client()
    asked = {"cases": ["greet"], "models": ["robot/r1", "robot/r2"]}
    plan = (await client.post("/api/validation/plan", json=asked)).json()
    assert plan["unpriced"] == ["robot/r2"]
    assert 0 < plan["cost"] < 0.01
    eager.tables["validation"]["prices"] = {"robot/r2": {"input": 0, "output": 0}}
    client = await eager.client()
    plan = (await client.post("/api/validation/plan", json={**asked, "models": ["robot/r2"]})).json()
    assert (plan["unpriced"], plan["cost"]) == ([], 0)


async def test_the_list_of_cases_has_what_a_run_does_by_default(eager):
    """As configured; null where the configuration does not say."""
    defaults = (await (await eager.client()).get("/api/validation/cases")).json()["defaults"]
    assert (defaults["models"], defaults["runs"], defaults["run_tools"]) == ([], None, False)
    eager.tables["validation"] |= {"models": ["robot/r9"], "runs": 1, "run_tools": True}
    defaults = (await (await eager.client()).get("/api/validation/cases")).json()["defaults"]
    assert (defaults["models"], defaults["runs"], defaults["run_tools"]) == (["robot/r9"], 1, True)


async def test_a_configuration_that_says_nothing_of_validation_has_models_and_an_empty_matrix(
    told, tmp_path, monkeypatch
):
    """The table may be left out."""
    monkeypatch.setenv("FLEXCHAT_DATA", str(tmp_path))
    told.tables.pop("validation", None)
    client = await told.client()
    assert (await client.get("/api/models/list")).status_code == 200
    assert (await client.get("/api/validation/matrix")).json()["cases"] == []
    assert (await client.post("/api/validation/plan", json={})).status_code == 422
