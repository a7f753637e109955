"""Figures over HTTP: in JSON, and as Prometheus reads them; of the caller's tenant, as its roles permit."""

import pytest
from flexchat_testing import calls
from prometheus_client.parser import text_string_to_metric_families

TOKENS = {"token-of-acme-acme": "acme", "token-of-other-other": "other"}
ACME, OTHER = ({"authorization": f"Bearer {token}"} for token in TOKENS)


@pytest.fixture
async def client(told):
    """A client of an app in which acme's turn has called a tool twice, and once one that does not exist."""
    told.says(calls(("get_weather", {"city": "Rome"}), ("get_weather", {}), ("wether", {"city": "Rome"})), "Sunny.")
    told.tables["responses"][0]["name"] = "support"
    told.tables["slo"] = {"tool.get_weather": {"success": 0.9, "p95_ms": 800}, "rule.support": {"done": 0.9}}
    made = await told.client(tokens=TOKENS)
    answer = await made.post("/chat/api", json={"prompt": "Weather?", "conversation": "c"}, headers=ACME)
    assert answer.status_code == 200, answer.text
    return made


async def test_the_figures_are_those_of_the_tenant(client):
    """Another tenant has none."""
    ours = (await client.get("/api/stats", headers=ACME)).json()
    theirs = (await client.get("/api/stats?since=24h", headers=OTHER)).json()

    assert [(row["name"], row["count"]) for row in ours["tools"]] == [("get_weather", 2), ("other", 1)]
    assert ours["models"][0]["selection_accuracy"] == pytest.approx(1 / 3)
    assert [row["name"] for row in ours["turns"]] == ["all", "with tools"]
    assert [each["state"] for each in ours["objectives"]] == ["insufficient data"] * 3
    assert (theirs["turns"], theirs["tools"], theirs["since"]) == ([], [], "24h")


async def test_prometheus_can_read_the_metrics(client):
    """With its own parser: names, types, labels and values."""
    answer = await client.get("/metrics", headers=ACME)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }

    assert samples["flexchat_turns_total", ("rule", "support"), ("state", "done")] == 1
    assert samples["flexchat_tool_calls_total", ("outcome", "ok"), ("tool", "get_weather")] == 1
    assert samples["flexchat_tool_calls_total", ("outcome", "not_found"), ("tool", "other")] == 1
    assert samples["flexchat_tool_duration_seconds_count", ("tool", "get_weather")] == 2
    assert samples["flexchat_tool_duration_seconds_bucket", ("le", "+Inf"), ("tool", "get_weather")] == 2
    assert samples["flexchat_model_requests_total", ("model", "robot/r1"), ("outcome", "ok")] == 2
    assert samples["flexchat_slo_violated", ("objective", "done"), ("target", "rule.support")] == 0


@pytest.mark.parametrize("since", ["", "yesterday", "-3d", "7", "9999999999w"])
async def test_a_since_that_cannot_be_read_is_answered_422(client, since):
    answer = await client.get("/api/stats", params={"since": since}, headers=ACME)

    assert answer.status_code == 422
    assert "is no time: write 12h" in answer.text


async def test_without_a_token_there_is_nothing(client):
    assert [(await client.get(path)).status_code for path in ("/api/stats", "/metrics")] == [401, 401]


async def test_without_conversations_there_are_no_figures(told):
    del told.tables["conversations"]
    client = await told.client()

    answer = await client.get("/api/stats")

    assert answer.status_code == 404
    assert "add a table [conversations]" in answer.text


@pytest.mark.parametrize(
    ("permissions", "status", "shows_costs"),
    [([], 403, False), (["view_costs"], 403, False), (["view_others"], 200, False),
     (["view_others", "view_costs"], 200, True)],
)  # fmt: skip
async def test_roles_decide_about_figures_and_costs(told, tmp_path, permissions, status, shows_costs):
    """Figures are of everyone's turns."""
    told.tables["roles"] = {"staff": {"tools": ["*"], "permissions": permissions}}
    (tmp_path / "tokens").write_text("acme token-of-acme-acme staff user=ann\n")
    client = await told.client(token_file=tmp_path / "tokens")
    await client.post("/chat/api", json={"prompt": "Hi", "conversation": "c"}, headers=ACME)

    answers = [await client.get(path, headers=ACME) for path in ("/api/stats", "/metrics")]

    assert [each.status_code for each in answers] == [status] * 2
    if status == 200:
        assert (answers[0].json()["turns"][0]["cost"] is not None) is shows_costs
        assert ("flexchat_model_cost_usd_total" in answers[1].text) is shows_costs
