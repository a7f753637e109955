"""A plugin's trouble is its own: it is logged under its name, and the turn goes on."""

import asyncio

import pytest
from flexchat.domain import TurnInfo, TurnStarted
from flexchat.plugin.hooks import HookCall, Hooks

STARTED = TurnStarted(info=TurnInfo(id="t"), user_message="x")
TROUBLE = [RuntimeError("bug"), asyncio.CancelledError(), SystemExit(3)]


def hooks(hook, function, *arguments):
    return Hooks({hook: [HookCall("mine", function, arguments)]})


@pytest.mark.parametrize("trouble", TROUBLE, ids=repr)
@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_watcher_that_fails_is_logged(trouble, kind, caplog):
    """Raising, calling sys.exit(), or awaiting something of its own that was cancelled."""

    def plain(user_message):
        raise trouble

    async def later(user_message):
        raise trouble

    await hooks("flexchat_turn_started", plain if kind == "def" else later, "user_message").tell(STARTED)

    assert "mine" in caplog.text


async def test_cancelling_the_turn_gets_through_a_watcher():
    """That cancellation is meant."""
    begun = asyncio.Event()

    async def slow(user_message):
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(hooks("flexchat_turn_started", slow, "user_message").tell(STARTED))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
