"""Documents of FlexChat in PostgreSQL with pgvector."""
