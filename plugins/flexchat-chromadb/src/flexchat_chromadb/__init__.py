"""FlexChat client for the ChromaDB wrapper of the Node original."""
