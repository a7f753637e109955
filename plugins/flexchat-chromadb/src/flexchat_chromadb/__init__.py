"""Document store for the ChromaDB wrapper service of the Node.js FlexChat."""
