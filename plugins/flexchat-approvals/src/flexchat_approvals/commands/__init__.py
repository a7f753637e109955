"""The commands ``flexchat approvals …``."""
