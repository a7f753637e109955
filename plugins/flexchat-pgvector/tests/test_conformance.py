"""The document store keeps the laws of the kit."""

import pytest
from flexchat_pgvector import conformance
from flexchat_postgresql.conformance import DSN_VARIABLE

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def database(server, monkeypatch):
    monkeypatch.setenv(DSN_VARIABLE, server.dsn())


class TestPgvector(conformance.Pgvector):
    """The store "pgvector"."""
