"""Records, cases, the matrix and runs over HTTP."""

import asyncio
import json

import httpx
import pytest
from flexchat_testing import calls

WEATHER = ("get_weather", {"city": "Rome"})
CASES = [
    {"name": "weather", "tags": ["calls"], "message": "Weather in Rome?", "calls": [{"tool": "get_weather"}]},
    {"name": "greet", "tags": ["abstains"], "message": "hello", "no_call": True},
]


def good(messages, options):
    """A model that does what the cases ask."""
    said = messages[-1]
    return calls(WEATHER) if said.role == "user" and "Weather" in said.content else "hello"


@pytest.fixture
def cases(told):
    told.tables["validation"]["cases"] = CASES
    told.says(good)
    return told


async def finished(client, sse, **body):
    answer = await client.post("/api/validation/runs", json=body)
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/api/validation/runs/{answer.json()['id']}"
    events = sse((await client.get(f"{answer.headers['location']}/events")).text)
    return answer.json(), events


async def test_a_test_is_recorded_by_hand(told):
    """POST tools/validate (TC-93); 4 of 5 is no validation."""
    client = await told.client()
    for success in (True, True, True, True, False):
        body = {"model": "robot:r1", "success": success, "details": {"n": 1}}
        status = (await client.post("/api/tools/validate", json=body)).json()
    assert (status["model_id"], status["test_count"], status["success_count"]) == ("robot/r1", 5, 4)
    assert (status["rate"], status["validated"], status["verdict"]) == (0.8, False, "undecided")
    assert (status["low"] < 0.4, status["more"]) == (True, None)  # at the line itself no number of tests decides
    (model,) = (await client.get("/api/models/list")).json()["models"][1:]
    assert model["validation"]["test_count"] == 5


async def test_a_file_of_cases_that_cannot_be_used_takes_no_other_case_away(cases, sse, tmp_path, monkeypatch):
    """What is wrong is told without the server's folders; a run of cases that can be used begins."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twice.toml").write_text('[[cases]]\nname = "greet"\nmessage = "x"\nno_call = true\n[[cases]]\n')
    cases.tables["validation"]["files"] = ["none.toml", "twice.toml"]
    client = await cases.client()

    answer = await client.get("/api/validation/cases")
    assert [case["name"] for case in answer.json()["cases"]] == ["weather", "greet"]
    assert str(tmp_path) not in answer.text
    places = [(one["path"], one["line"]) for one in answer.json()["problems"]]
    assert {("validation.files[0]", None), ("twice.toml: cases[0].name", 2)} <= {*places}
    refused = await client.post("/api/validation/runs", json={})
    assert (refused.status_code, str(tmp_path) in refused.text) == (422, False)
    assert "there is no such file: none.toml" in refused.text
    run, _ = await finished(client, sse, cases=["greet"])
    assert run["planned"] == 1


async def test_the_cases_are_listed_with_what_they_expect(cases):
    """One line for people; by tag."""
    client = await cases.client()
    first, second = (await client.get("/api/validation/cases")).json()["cases"]
    assert (first["name"], first["expects"], first["turns"]) == ("weather", "get_weather()", 1)
    assert (second["aspects"], second["judge"]) == (["abstains"], "flexchat")
    by_tag = (await client.get("/api/validation/cases?tag=calls")).json()["cases"]
    assert [case["name"] for case in by_tag] == ["weather"]
    assert (await client.get("/api/validation/cases?tag=none")).json()["cases"] == []


async def test_a_run_tries_every_case_and_its_events_tell_every_attempt_once(cases, sse):
    """From its beginning to the verdict in the matrix."""
    client = await cases.client()
    run, events = await finished(client, sse, runs=3)
    assert (run["state"], run["planned"], run["models"]) == ("running", 6, ["robot/r1"])
    assert (events[0][0], events[-1][0]) == ("run", "run")
    last = events[-1][1]
    assert (last["state"], last["done"], last["passed"], last["failed"]) == ("finished", 6, 6, 0)
    attempts = [data for name, data in events if name == "attempt"]
    assert len({attempt["id"] for attempt in attempts}) == len(attempts) == 6
    assert {attempt["outcome"] for attempt in attempts} == {"passed"}
    shown = (await client.get(f"/api/validation/runs/{run['id']}")).json()
    assert {a["id"] for a in shown["attempts"]} == {a["id"] for a in attempts}
    matrix = (await client.get("/api/validation/matrix")).json()
    assert matrix["cases"] == ["weather", "greet"]
    assert [(cell["case"], cell["passed"]) for cell in matrix["cells"]] == [("weather", 3), ("greet", 3)]
    assert matrix["models"][0]["success_count"] == 6
    assert {aspect["aspect"] for aspect in matrix["aspects"]} >= {"right_tool", "abstains"}
    assert [r["id"] for r in (await client.get("/api/validation/runs")).json()["runs"]] == [run["id"]]


@pytest.mark.slow
async def test_a_run_watched_from_its_middle_tells_every_attempt_once(cases, running):
    """Over a socket, while it goes on: what was before, and what comes."""
    gate = asyncio.Semaphore(2)
    loop = asyncio.get_running_loop()

    async def slow(messages, options):
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(gate.acquire(), loop))
        return "hello"

    async def attempts(answer):
        name = ""
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: ") and name == "attempt":
                yield json.loads(line[6:])["id"]

    cases.says(slow)
    cases.tables["validation"]["concurrency"] = 1
    with running(cases.app()) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=10) as client:
            run = (await client.post("/api/validation/runs", json={"cases": ["greet"], "runs": 5})).json()
            path = f"/api/validation/runs/{run['id']}/events"
            async with client.stream("GET", path) as early:
                seen = attempts(early)
                first = [await anext(seen), await anext(seen)]
                async with client.stream("GET", path) as late:
                    for _ in range(3):
                        gate.release()
                    whole = [id async for id in attempts(late)]
                first += [id async for id in seen]
    assert first == whole
    assert len(set(whole)) == 5


@pytest.mark.slow
async def test_one_model_is_tried_by_one_run_at_a_time_and_a_run_can_be_cancelled_and_resumed(cases, running):
    """409; DELETE keeps what was found; resume makes the rest."""
    gate = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def slow(messages, options):
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(gate.wait(), loop))
        return "hello"

    cases.says(slow)
    with running(cases.app()) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=10) as client:
            run = (await client.post("/api/validation/runs", json={"cases": ["greet"], "runs": 2})).json()
            path = f"/api/validation/runs/{run['id']}"
            again = await client.post("/api/validation/runs", json={})
            assert (again.status_code, again.json()["type"]) == (409, "urn:flexchat:problem:run-under-way")
            assert (await client.post(f"{path}/resume")).status_code == 409
            assert (await client.delete(path)).status_code == 204
            assert (await client.get(path)).json()["state"] == "cancelled"
            gate.set()
            resumed = await client.post(f"{path}/resume")
            assert (resumed.status_code, resumed.json()["id"]) == (202, run["id"])
            await client.get(f"{path}/events")
            done = (await client.get(path)).json()
            assert (done["state"], done["passed"], len(done["attempts"])) == ("finished", 2, 2)
            assert (await client.post(f"{path}/resume")).status_code == 409


async def test_a_server_that_ends_interrupts_its_runs_and_the_next_one_resumes_them(cases, sse, client_of):
    """Nothing that was reported is made twice."""
    first = [True]

    async def once(messages, options):
        if first:
            first.clear()
            return "hello"
        await asyncio.Event().wait()

    cases.says(once)
    cases.tables["validation"]["concurrency"] = 1
    app = cases.app()
    async with client_of(app) as client:
        run = (await client.post("/api/validation/runs", json={"cases": ["greet"], "runs": 2})).json()
        path = f"/api/validation/runs/{run['id']}"
        while (await client.get(path)).json()["done"] < 1:
            pass
        await app.aclose()
    cases.says("hello")
    client = await cases.client()
    shown = (await client.get(path)).json()
    assert (shown["state"], shown["done"]) == ("interrupted", 1)
    assert (await client.post(f"{path}/resume")).status_code == 202
    events = sse((await client.get(f"{path}/events")).text)
    assert (events[-1][1]["state"], events[-1][1]["passed"]) == ("finished", 2)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"cases": ["wether"]}, 404, "did you mean 'weather'"),
        ({"tags": ["nothing"]}, 404, "no case has the tag"),
        ({"runs": 0}, 400, "runs"),
        ({"models": [""]}, 400, "models"),
    ],
)
async def test_a_run_of_what_is_not_there_is_refused(cases, body, status, said):
    """With a sentence; and so is one that the document does not allow."""
    answer = await (await cases.client()).post("/api/validation/runs", json=body)
    assert answer.status_code == status
    assert said in answer.json()["detail"]


async def test_without_cases_a_run_is_refused(told):
    """It would prove nothing."""
    answer = await (await told.client()).post("/api/validation/runs", json={})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:flexchat:problem:no-cases")


async def test_a_models_record_and_the_matrix_say_the_same(cases, sse):
    """A case that asks something else makes its results stale for both; without any case, results of all count."""
    await finished(await cases.client(), sse, runs=2)
    known = []
    for changed in (CASES, [{**case, "message": f"{case['message']} Please."} for case in CASES], CASES[:1], []):
        cases.tables["validation"]["cases"] = changed
        client = await cases.client()
        models = (await client.get("/api/models/list")).json()["models"]
        said = next(model["validation"] for model in models if model["id"] == "robot/r1")
        matrix = (await client.get("/api/validation/matrix")).json()
        assert matrix["models"] == [said]
        assert {cell["case"] for cell in matrix["cells"]} == {case["name"] for case in changed}
        known.append((said["test_count"], said["stale"]))
    assert known == [(4, False), (4, True), (2, False), (4, False)]


async def test_an_unknown_run_is_404(told):
    """Whatever its id looks like."""
    client = await told.client()
    for method, path in [("GET", "x"), ("GET", "x/events"), ("POST", "x/resume"), ("DELETE", "%00"), ("GET", "é" * 99)]:
        assert (await client.request(method, f"/api/validation/runs/{path}")).status_code == 404


async def test_results_are_exported_and_imported_elsewhere(cases, sse, tmp_path):
    """Nothing is lost, and nothing doubled by importing again."""
    client = await cases.client()
    await finished(client, sse, runs=2)
    data = (await client.get("/api/validation/export")).json()
    cases.tables["validation"]["store"] = str(tmp_path / "elsewhere.db")
    other = await cases.client()
    assert (await other.post("/api/validation/import", json=data)).json() == {"imported": 4}
    assert (await other.post("/api/validation/import", json=data)).json() == {"imported": 0}
    matrices = [(await each.get("/api/validation/matrix")).json() for each in (client, other)]
    assert matrices[0]["models"] == matrices[1]["models"]


async def test_old_records_are_imported_and_nonsense_is_refused(told):
    """Pairs of id and record (TC-99); what is none: 422; without the right to edit: 403."""
    client = await told.client()
    record = {"model_id": "robot/r1", "tested": True, "validated": True, "test_count": 3, "success_count": 2}
    old = [["robot/r1", record]]
    assert (await client.post("/api/validation/import", json=old)).json()["imported"] > 0
    (record,) = (await client.get("/api/tools/validation")).json()["validations"]
    assert (record["test_count"], record["success_count"], record["validated"]) == (3, 2, False)
    assert (await client.post("/api/validation/import", json={"format": "x"})).status_code == 422
    assert (await (await told.client(edit=False)).post("/api/validation/import", json=old)).status_code == 403


async def test_records_come_in_parts(told):
    """An import may bring tens of thousands of models; a client follows ``next`` until there is none."""
    client = await told.client()
    old = {"records": {f"robot/m{i}": {"totalTests": 1, "successCount": 1} for i in range(130)}}
    assert (await client.post("/api/validation/import", json=old)).status_code == 200

    first = (await client.get("/api/tools/validation")).json()
    assert (len(first["validations"]), first["total"], first["next"]) == (100, 130, 100)
    last = (await client.get("/api/tools/validation?start=100")).json()
    assert (len(last["validations"]), last["next"]) == (30, None)
    assert len({each["model_id"] for each in (*first["validations"], *last["validations"])}) == 130
    assert (await client.get("/api/tools/validation?limit=101")).status_code == 400


async def test_a_whole_number_may_be_written_with_a_point(cases, sse):
    """1.0 is an integer in JSON Schema."""
    client = await cases.client()
    _, events = await finished(client, sse, runs=1.0, cases=["greet"])
    assert events[-1][1]["planned"] == 1
    asked = {"model": "robot/r1", "max_tokens": 5.0, "seed": 1.0, "messages": [{"role": "user", "content": "x"}]}
    assert (await client.post("/v1/chat/completions", json=asked)).status_code == 200


@pytest.mark.slow
async def test_many_results_are_read_and_told_of_apart_with_the_same_answers(cases, sse, monkeypatch, tmp_path):
    """What is long is imported and summed up in another process, as in this one; the server only keeps rows."""
    from flexchat_validation.web import records
    from flexchat_web import apart as processes
    from flexchat_web import checking

    monkeypatch.setattr(processes, "SECONDS", 250)  # its limit of time is tested elsewhere; a loaded machine exceeds it
    client = await cases.client()
    await finished(client, sse, runs=2)
    tests = [{"success": n % 3 > 0, "timestamp": f"2026-01-01T00:00:{n:02}Z", "details": "x"} for n in range(40)]
    old = {"records": {f"robot/m{m}": {"history": tests, "totalTests": 50, "successCount": 30} for m in range(9)}}
    paths = ["tools/validation", "validation/matrix", "validation/attempts?limit=500", "validation/export"]

    async def answers():
        found = [await client.post("/api/validation/import", json=old), *[await client.get(f"/api/{p}") for p in paths]]
        return [(answer.status_code, {**answer.json(), "saved_at": 0}) for answer in found]

    monkeypatch.setattr(checking, "QUICK_MARKS", 10)
    assert (await client.post("/api/validation/import", json=old)).json() == {"imported": 9 * 41}
    apart = await answers()
    monkeypatch.setattr(checking, "QUICK_MARKS", 10**9)
    monkeypatch.setattr(records, "QUICK", 10**9)
    assert apart == await answers()
    assert [status for status, _ in apart] == [200] * 5
    monkeypatch.setattr(checking, "QUICK_MARKS", 0)
    assert (await client.post("/api/validation/import", json={"format": "x"})).status_code == 422
    assert (await client.post("/api/validation/import", content=b"{,")).status_code == 415


@pytest.mark.slow
async def test_the_matrix_comes_in_parts(told):
    """An import may bring more models than one answer should hold."""
    client = await told.client()
    history = [{"success": True, "timestamp": "2026-01-01T00:00:00Z"}]
    records = {f"robot/m{i:04}": {"history": history} for i in range(250)}
    assert (await client.post("/api/validation/import", json={"records": records})).json() == {"imported": 250}

    found, start = [], 0
    while start is not None:
        part = (await client.get("/api/validation/matrix", params={"start": start})).json()
        assert len(part["models"]) <= 100
        assert {aspect["model_id"] for aspect in part["aspects"]} <= {model["model_id"] for model in part["models"]}
        found += [model["model_id"] for model in part["models"]]
        start = part["next"]

    assert part["total"] == len(found) == len({*found}) == 251
    assert {*records} < {*found}
    assert len((await client.get("/api/validation/matrix?limit=2")).json()["models"]) == 2
    for query in ("limit=0", "limit=101", "start=-1"):
        assert (await client.get(f"/api/validation/matrix?{query}")).status_code == 400


@pytest.mark.slow
async def test_a_matrix_of_many_cases_has_fewer_models_in_a_part(told):
    """What is bounded is what an answer holds, in either direction."""
    told.tables["validation"]["cases"] = [{"name": f"c{i}", "message": "hi", "no_call": True} for i in range(4_000)]
    client = await told.client()
    records = {f"robot/m{i}": {"history": [{"success": True, "timestamp": "2026-01-01T00:00:00Z"}]} for i in range(9)}
    await client.post("/api/validation/import", json={"records": records})

    part = (await client.get("/api/validation/matrix")).json()

    assert (len(part["models"]), part["next"], part["total"]) == (2, 2, 10)
