"""Documents for FlexChat: an embedded store with hybrid search, and ingestion of files."""
