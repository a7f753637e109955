"""A plugin's trouble is its own: it is logged under its name, and the turn goes on."""

import asyncio
import inspect

import attrs
import pytest
from flexchat.domain import Happening, ModelRequestStarted, TurnInfo, TurnStarted
from flexchat.domain.events import HAPPENINGS
from flexchat.plugin import hookspecs
from flexchat.plugin.hooks import HookCall, Hooks, hook_of

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


@pytest.mark.parametrize("kind", HAPPENINGS, ids=lambda kind: kind.__name__)
def test_every_happening_has_its_hook_with_its_fields(kind):
    """One happening, one set of data: whoever listens."""
    spec = getattr(hookspecs, hook_of(kind))

    assert sorted(inspect.signature(spec).parameters) == sorted(field.name for field in attrs.fields(kind))


def test_every_class_of_happenings_is_listed():
    def below(kind):
        return {each for sub in kind.__subclasses__() for each in ({sub} | below(sub))}

    assert {kind for kind in below(Happening) if kind.__module__ == Happening.__module__} == set(HAPPENINGS)


def test_a_hook_is_called_as_its_happening_in_snake_case():
    assert hook_of(ModelRequestStarted) == "flexchat_model_request_started"
