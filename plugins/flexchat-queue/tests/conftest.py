"""A real server: shared by the packages that use PostgreSQL."""

from postgres_server import dsn, own_server, programs_of, schema, server

__all__ = ["dsn", "own_server", "programs_of", "schema", "server"]
