"""The JSON Schema of tool parameters: written from a function, limited at registration, checked at each call."""
