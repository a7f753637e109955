"""The command ``flexchat worker``."""
