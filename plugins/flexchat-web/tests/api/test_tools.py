"""The tools over HTTP."""

import json


async def test_the_tools_of_the_configuration_are_listed(told):
    """GET tools/list (TC-91)."""
    answer = (await (await told.client()).get("/api/tools/list")).json()
    (tool,) = answer["tools"]
    assert (tool["name"], tool["implementation"], tool["effect"]) == ("get_weather", {"type": "mock"}, "read")
    assert tool["parameters"]["required"] == ["city"]
    assert (answer["count"], answer["enabled"], answer["max_iterations"]) == (1, True, 5)


async def test_no_tools_are_listed_where_they_are_switched_off(told):
    """An empty list if tools are disabled (TC-91)."""
    told.tables["tools"]["enabled"] = False
    answer = (await (await told.client()).get("/api/tools/list")).json()
    assert (answer["tools"], answer["enabled"]) == ([], False)


async def test_ready_made_tools_of_plugins_are_available(told):
    """Those a configuration switches on by their name."""
    names = [tool["name"] for tool in (await (await told.client()).get("/api/tools/available")).json()["tools"]]
    assert "calculator" in names


async def test_a_tool_is_called_by_hand_and_trouble_is_in_the_result(told):
    """The envelope a model would read: 200 either way."""
    client = await told.client()

    async def result(name, arguments):
        return (await client.post("/api/tools/call", json={"name": name, "arguments": arguments})).json()

    assert (await result("get_weather", {"city": "Rome"}))["result"] == {"celsius": 21}
    wrong = await result("get_weather", {"city": 5, "extra": 1})
    assert wrong["success"] is False
    assert wrong["error"].startswith("Invalid parameters: ")
    unknown = await result("get_whether", {})
    assert unknown["error"] == "Tool 'get_whether' not found"
    assert unknown["hint"].startswith("did you mean 'get_weather'? available tools: ")


async def test_lint_says_what_services_make_of_the_tools(told):
    """All modes of all installed providers, where none of the configured ones says what it takes."""
    answer = (await (await told.client()).get("/api/tools/lint")).json()
    assert "openai.strict" in answer["services"]
    assert len(answer["findings"]) == len(answer["services"])
    assert {finding["status"] for finding in answer["findings"]} <= {"accepted", "rewritten", "refused"}


TOOLS = [
    {"name": "find", "description": "Find things.", "effect": "read"},
    {"name": "order", "description": "Order a thing.", "effect": "write"},
]


async def test_the_sources_of_tools_are_told_and_opened_by_nobody(told, tmp_path):
    """What waits to be accepted is there once a turn has opened a source."""
    listed = tmp_path / "tools.json"
    listed.write_text(json.dumps(TOOLS))
    told.tables["tools"] |= {
        "listed": [{"name": "shop", "file": str(listed), "prefix": "shop_"}],
        "lock": str(tmp_path / "a.lock"),
    }
    told.tables["responses"][0]["tools"] = {"enabled": True}
    client = await told.client()

    async def source():
        (found,) = (await client.get("/api/tools/sources")).json()["sources"]
        return found

    assert ((await source())["status"], (await source())["accepted"]) == ("not opened", False)
    await client.post("/chat/api", json={"prompt": "Hello."})
    assert ((await source())["status"], (await source())["tools"]) == ("open", ["shop_find", "shop_order"])
    of = {tool["name"]: tool["source"] for tool in (await client.get("/api/tools/list")).json()["tools"]}
    assert of == {"get_weather": None, "shop_find": "shop", "shop_order": "shop"}

    listed.write_text(json.dumps([{**TOOLS[0], "effect": "write"}, {"name": "drop", "description": "Drop it."}]))
    client = await told.client()
    await client.post("/chat/api", json={"prompt": "Hello."})
    changes = (await source())["changes"]
    assert [(change["tool"], change["kind"], change["offered"]) for change in changes] == [
        ("drop", "new", False),
        ("find", "changed", True),
        ("order", "gone", False),
    ]
    assert changes[1]["differences"] == [{"place": "effect", "before": "read", "now": "write"}]


async def test_the_price_of_each_rules_tools_is_told(told):
    """In tokens, estimated; the dearest tool first."""
    told.tables["responses"][0]["tools"] = {"enabled": True}
    answer = (await (await told.client()).get("/api/tools/cost")).json()
    (rule,) = answer["rules"]
    assert [one["tool"] for one in rule["tools"]] == ["get_weather"]
    assert 20 < rule["tokens"] < 200
    assert rule["unsendable"] == []
    assert rule["cost"] == {"amount": None, "currency": "USD", "unpriced": ["no price is known for r1 of robot"]}
    assert (answer["budget_tokens"], answer["bytes_per_token"]) == (10_000, 3.5)
