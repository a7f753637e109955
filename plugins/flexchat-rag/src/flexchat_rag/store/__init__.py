"""The document store in one SQLite file.

tables.py    the schema
rows.py      validation and conversion of documents
filling.py   adding, replacing, deleting; sources and collections
reading.py   listing and fetching
filters.py   metadata filters as SQL
words.py     word search (FTS5, BM25)
vectors.py   vector search (NumPy, exact)
search.py    combination of rankings into hits
"""
