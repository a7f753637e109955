"""How what happens in a turn reaches those who listen: plugins, the reader of a stream, records."""
