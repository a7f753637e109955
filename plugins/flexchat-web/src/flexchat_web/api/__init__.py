"""The server's operations, except those on the configuration, by subject."""
