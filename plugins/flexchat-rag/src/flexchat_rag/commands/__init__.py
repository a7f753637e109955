"""``flexchat rag``: fill and inspect document stores; and ``flexchat demo rag``."""
