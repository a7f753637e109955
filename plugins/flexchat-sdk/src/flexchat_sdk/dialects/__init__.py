"""JSON Schema in the dialects of services: rewriting, and what is lost by it."""
