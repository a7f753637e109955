"""The commands ``flexchat stats`` and ``flexchat slo``."""
