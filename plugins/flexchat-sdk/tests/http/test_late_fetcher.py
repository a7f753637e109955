"""A chat's fetcher loads nothing before the first request, and obeys the config from then on."""

import subprocess
import sys

import pytest
from flexchat.domain.fetching import FetchRequest
from flexchat.domain.masking import Mask
from flexchat.errors import AddressRefusedError
from flexchat_sdk.plugin import LateFetcher

CODE = """
import sys
from flexchat import FlexChat
rule = {"llm": "r", "model": "m"}
chat = FlexChat.from_config({"llms": {"r": {"provider": "rehearsal"}}, "responses": [rule]})
print([name for name in ("aiohttp", "httpx", "flexchat_sdk.http.fetcher") if name in sys.modules])
"""


@pytest.mark.slow
def test_a_start_loads_no_client():
    """Nor the fetcher itself."""
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)

    assert found.stdout == "[]\n"


async def test_it_obeys_what_it_was_given(serve):
    """allow and domains; it can be closed before and after use."""

    async def handler(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    url = await serve(handler)
    fetcher = LateFetcher([url.removeprefix("http://")], ["127.0.0.1"], Mask())
    await fetcher.aclose()

    assert (await fetcher.fetch(FetchRequest(url=url), timeout_s=5)).body == b"ok"
    for other in ("http://127.0.0.1:1/", "http://example.com/"):
        with pytest.raises(AddressRefusedError):
            await fetcher.fetch(FetchRequest(url=other))
    await fetcher.aclose()
