"""The queue keeps the laws of queues of turns."""

import pytest
from flexchat_queue import conformance
from flexchat_testing.card import verify_plugin


@pytest.fixture(autouse=True)
def database(server, monkeypatch):
    monkeypatch.setenv(conformance.DSN_VARIABLE, server.dsn())


class TestProcrastinate(conformance.ProcrastinateTurns):
    """The queue on procrastinate."""


def test_the_card_of_the_plugin_tries_its_own_queue(monkeypatch):
    monkeypatch.delenv(conformance.DSN_VARIABLE, raising=False)

    titles = [chapter.title for chapter in verify_plugin("queue").chapters]

    assert titles == ["what it registers", "ProcrastinateTurns"]
