"""Local embeddings for FlexChat with all-MiniLM-L6-v2: no API key, no network."""
