"""The conversation store, its journal and its ledger keep the laws of the kit."""

import pytest
from flexchat_postgresql import conformance


@pytest.fixture(autouse=True)
def database(server, monkeypatch):
    monkeypatch.setenv(conformance.DSN_VARIABLE, server.dsn())


class TestPostgresql(conformance.Postgresql):
    """The store "postgresql"."""


@pytest.mark.slow
class TestPostgresqlEffects(conformance.PostgresqlEffects):
    """The ledger of the store "postgresql"."""


@pytest.mark.slow
class TestPostgresqlTurns(conformance.PostgresqlTurns):
    """The journal of the store "postgresql"."""


@pytest.mark.slow
class TestPostgresqlQuestions(conformance.PostgresqlQuestions):
    """The questions of the store "postgresql"."""


@pytest.mark.slow
class TestPostgresqlMedia(conformance.PostgresqlMedia):
    """The media of the store "postgresql"."""


@pytest.mark.slow
class TestPostgresqlCounts(conformance.PostgresqlCounts):
    """The counters of the store "postgresql"."""


@pytest.mark.slow
class TestPostgresqlSums(conformance.PostgresqlSums):
    """The hourly sums of the store "postgresql"."""
