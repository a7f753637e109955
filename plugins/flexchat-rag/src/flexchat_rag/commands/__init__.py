"""flexchat rag …: filling document stores, and looking into them; and flexchat demo rag."""
