"""The queue keeps the laws of queues of turns."""

import pytest
from flexchat_queue import conformance


@pytest.fixture(autouse=True)
def database(server, monkeypatch):
    monkeypatch.setenv(conformance.DSN_VARIABLE, server.dsn())


class TestProcrastinate(conformance.ProcrastinateTurns):
    """The queue on procrastinate."""
