"""Documents and conversations of FlexChat in PostgreSQL with pgvector."""
