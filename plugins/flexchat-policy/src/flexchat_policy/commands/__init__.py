"""Commands of flexchat-policy."""
