"""Commands added to ``flexchat``."""
