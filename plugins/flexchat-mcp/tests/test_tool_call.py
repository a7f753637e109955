"""The request that calls a tool. What comes of calls: test_calling.py; of tasks: test_tasks.py."""

import asyncio

import pytest
from flexchat.plugin import ToolError
from flexchat_mcp.tool_call import call_tool


def test_a_server_that_does_not_stop_asking_is_stopped():
    class Asking:
        """A client whose server asks again and again; its state must come back."""

        def __init__(self):
            self.session, self.states = self, []

        async def send_request(self, request, kind, progress_callback=None):
            self.states.append(request.params.request_state)
            return {"resultType": "input_required", "requestState": f"s{len(self.states)}"}

    client = Asking()
    with pytest.raises(ToolError, match="asked 10 times"):
        asyncio.run(call_tool(client, "add", {}))
    assert client.states == [None, *(f"s{n}" for n in range(1, 10))]
