"""Old servers are remembered between programs, which are other sources here."""

import os
import time

import pytest
from flexchat_mcp.listing import list_tools
from flexchat_mcp.server import FOR_S, OldServer

pytestmark = pytest.mark.anyio


async def alive(source):
    return len((await source.server.ask(list_tools)).tools)


async def test_an_old_server_that_dies_of_a_new_message_is_asked_once(source_of, folder):
    """The next program, which is another source here, speaks to it in the old way at once."""
    assert await alive(source_of("handshake", "die of discover")) == 2
    assert len(folder.lines("starts")) == 2

    assert await alive(source_of("handshake", "die of discover")) == 2
    assert len(folder.lines("starts")) == 3


@pytest.mark.parametrize("faults", [(), ("die of initialize",)])
async def test_a_server_that_was_old_and_is_new_is_spoken_to_in_the_new_way(source_of, folder, data_folder, faults):
    source = source_of("modern", *faults)
    OldServer(source.config, folder.path).remember(True)

    assert await alive(source) == 2
    assert source.server.state.version == "2026-07-28"
    assert [*(data_folder / "mcp").iterdir()] == []


async def test_a_server_of_both_eras_is_asked_again_after_a_week(source_of, folder, data_folder):
    source = source_of("both")
    OldServer(source.config, folder.path).remember(True)
    assert await alive(source) == 2
    assert source.server.state.version == "2025-11-25"

    (kept,) = (data_folder / "mcp").iterdir()
    week_ago = time.time() - FOR_S - 1
    os.utime(kept, (week_ago, week_ago))
    another = source_of("both")
    assert await alive(another) == 2
    assert another.server.state.version == "2026-07-28"


async def test_where_nothing_can_be_kept_the_server_is_asked_each_time(source_of, folder, data_folder):
    data_folder.parent.mkdir(exist_ok=True)
    data_folder.write_text("a file where the folder should be")

    for _ in range(2):
        source = source_of("handshake")
        assert await alive(source) == 2
        assert source.server.state.version == "2025-11-25"
