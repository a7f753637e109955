"""Servers on sockets within the loop of a test, and clients that read their streams piece by piece."""

import asyncio
import contextlib
import json

import httpx
import pytest


@pytest.fixture
async def listening(told):
    """A server on a socket within this loop: await listening(**settings) gives a client that really streams."""
    import uvicorn

    async with contextlib.AsyncExitStack() as stack:

        async def start(**settings):
            app = told.app(**settings)
            server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on", ws="none"))
            server.config.load()
            serving = asyncio.create_task(server.serve())
            await until(lambda: server.started)

            async def end():
                server.should_exit = True
                await asyncio.wait_for(serving, 10)

            stack.push_async_callback(end)
            port = server.servers[0].sockets[0].getsockname()[1]
            client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10)
            client.app = app
            return await stack.enter_async_context(client)

        yield start


async def heard(response, most=None, last=None):
    """The events of a stream, (id, name, data), until it ends, or that many have come, or one of that name."""
    found, event = [], {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif event:
            number = int(event["id"]) if "id" in event else None
            found.append((number, event["event"], json.loads(event["data"])))
            event = {}
            if len(found) == most or found[-1][1] == last:
                break
    return found


async def begin(client, most=None, last=None, **body):
    """Begin a turn and leave after that many events, or after one of that name."""
    async with client.stream("POST", "/chat/api", json={"prompt": "Rome?", "stream": True, **body}) as response:
        assert response.status_code == 200
        return await heard(response, most, last)


async def join(client, id, after=0, most=None, last=None, **headers):
    """Join a turn after that event."""
    headers["last-event-id"] = str(after)
    async with client.stream("GET", f"/api/turns/{id}/events", headers=headers) as response:
        assert response.status_code in (200, 204)
        return await heard(response, most, last)


async def until(true):
    """Wait until something holds that reports no change."""
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110  there is nothing to wait for
            await asyncio.sleep(0.001)
