"""How a turn's events reach their listeners: plugins, the reader of a stream, records."""
