"""The JSON Schema of tool parameters: derived from a function, limited at registration, checked at each call."""
