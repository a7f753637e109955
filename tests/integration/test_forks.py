"""A process that has made a chat forks: gunicorn with --preload, Celery, multiprocessing."""

import asyncio
import os
import re
import select
import signal
import sys

import pytest
from flexchat import ChatClosedError, FlexChat, SyncFlexChat
from flexchat.errors import StorageError
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_testing import ScriptedProvider

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="processes are forked"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

CONFIG = {"responses": [{"llm": "main"}]}


def in_a_fork(work):
    """Return what a function returns in a forked process, or its error, within ten seconds."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = f"{work()}"
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    arrived, _, _ = select.select([reader], [], [], 10)
    if not arrived:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reader) as answers:
        return answers.read() if arrived else "it hangs"


def a_chat(**tables):
    return FlexChat.from_config({**CONFIG, **tables}, providers={"main": ScriptedProvider(["Fine."], repeat=True)})


def test_a_chat_that_was_only_made_before_the_fork_works_in_each_process():
    chat = SyncFlexChat(a_chat())

    assert [in_a_fork(lambda: chat.respond("go").content) for _ in range(2)] == ["Fine.", "Fine."]
    with chat:
        assert chat.respond("go").content == "Fine."


@pytest.mark.parametrize(
    "work",
    [
        lambda chat: chat.respond("go"),
        lambda chat: list(chat.stream("go")),
        lambda chat: chat.list_models(),
        lambda chat: chat.run(lambda c: c.respond("go")),
    ],
    ids=["respond", "stream", "list_models", "run"],
)
def test_a_chat_that_was_used_before_the_fork_is_refused_at_once(work):
    with SyncFlexChat(a_chat()) as chat:
        chat.respond("go")
        answer = in_a_fork(lambda: work(chat))

        assert re.match(r"ChatClosedError: this (Sync)?FlexChat was used by process \d+, ", answer)
        assert answer.endswith("make one in each process, after the fork")
        assert chat.respond("go").content == "Fine."


def test_a_fork_may_close_the_chat_of_its_parent():
    with SyncFlexChat(a_chat()) as chat:
        unread = chat.stream("go")
        next(unread)

        assert in_a_fork(chat.close) == "None"
        assert in_a_fork(unread.close) == "None"
        assert chat.respond("go").content == "Fine."


def test_a_chat_on_an_event_loop_is_refused_as_well(tmp_path):
    chat = a_chat(conversations={"path": str(tmp_path / "c.db")})
    assert in_a_fork(lambda: asyncio.run(chat.respond("go")).content) == "Fine."
    asyncio.run(chat.respond("go"))

    assert in_a_fork(lambda: asyncio.run(chat.respond("go"))).startswith("ChatClosedError: this FlexChat was used by")
    assert in_a_fork(lambda: asyncio.run(chat.aclose())) == "None"
    asyncio.run(chat.aclose())
    with pytest.raises(ChatClosedError, match="is closed"):
        asyncio.run(chat.respond("go"))


def test_a_database_that_was_opened_before_the_fork_is_refused(tmp_path):
    """SQLite's locks are those of the process that opened the file."""
    store = SqliteConversations(tmp_path / "c.db")
    assert in_a_fork(lambda: asyncio.run(store.list(tenant="default"))) == "[]"
    asyncio.run(store.list(tenant="default"))

    assert in_a_fork(lambda: asyncio.run(store.list(tenant="default"))).startswith(f"{StorageError.__name__}: ")
    assert in_a_fork(lambda: asyncio.run(store.aclose())) == "None"
    assert asyncio.run(store.list(tenant="default")) == []
    asyncio.run(store.aclose())
