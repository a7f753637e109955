"""A document store for FlexChat in PostgreSQL with pgvector."""
