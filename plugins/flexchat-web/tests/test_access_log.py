"""The line of each request, its id, and its trace."""

import json
import logging

import pytest
from flexchat.plugin import hookimpl
from flexchat_cli.logs import JsonFormatter, add_ids

GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def lines_in(caplog):
    return [r for r in caplog.records if r.name == "flexchat_web.access"]


async def test_each_request_has_a_line_without_its_query(told, caplog):
    client = await told.client()
    with caplog.at_level(logging.INFO, "flexchat_web.access"):
        await client.get("/?token=hunter2-hunter2-x", headers={"x-request-id": "abc-1"})
        await client.get("/nothing%0aforged")
    first, second = lines_in(caplog)
    assert first.fields["path"] == "/"
    assert (first.fields["method"], first.fields["status"]) == ("GET", 200)
    assert (second.fields["path"], second.fields["status"]) == ("/nothing%0Aforged", 404)
    assert "hunter2" not in first.getMessage()


@pytest.mark.parametrize("given", ["abc-1", "A" * 128, "1-67891233-abcdef012345678912345678", "user/42:7=a+b_c.d"])
async def test_a_request_id_goes_back(told, given):
    client = await told.client()
    answer = await client.get("/health", headers={"x-request-id": given})
    assert answer.headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "two words", "A" * 129, "é".encode(), "<script>", 'a"b', "a\tb"])
async def test_an_unusable_request_id_is_replaced(told, given):
    client = await told.client()
    first = await client.get("/health", headers={"x-request-id": given})
    second = await client.get("/nothing")
    assert len(first.headers["x-request-id"]) == len(second.headers["x-request-id"]) == 16
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


async def test_records_of_a_request_have_its_id(told, caplog):
    caplog.handler.addFilter(add_ids)
    client = await told.client()
    with caplog.at_level(logging.INFO, "flexchat_web.access"):
        await client.get("/health", headers={"x-request-id": "abc-1", "traceparent": GIVEN})
    caplog.handler.removeFilter(add_ids)
    data = json.loads(JsonFormatter().format(lines_in(caplog)[0]))
    assert (data["request"], data["tenant"], data["trace"]) == ("abc-1", "default", GIVEN[3:35])


class Traces:
    """The traces of the turns that a chat begins."""

    def __init__(self):
        self.seen = []

    @hookimpl
    def flexchat_turn_started(self, info):
        self.seen.append(info.traceparent)


BODIES = {
    "/chat/api": {"prompt": "hello"},
    "/v1/chat/completions": {"model": "robot/r1", "messages": [{"role": "user", "content": "hello"}]},
    "/v1/responses": {"model": "robot/r1", "input": "hello"},
}


@pytest.mark.parametrize("path", BODIES)
async def test_a_turn_belongs_to_the_trace_of_its_request(told, path):
    told.says("hi")
    traces = Traces()
    client = await told.client(hooks=(traces,))
    answer = await client.post(path, json=BODIES[path], headers={"traceparent": GIVEN})
    assert answer.status_code == 200
    await client.post(path, json=BODIES[path], headers=[("traceparent", GIVEN), ("traceparent", GIVEN)])
    first, second = traces.seen
    assert first == GIVEN
    assert second.split("-")[1] != GIVEN.split("-")[1]
