"""The document store in one SQLite file.

database.py  the schema, documents as rows, and what is read and written within one transaction
search.py    word search (FTS5, BM25), combination of rankings into hits, metadata filters as SQL
vectors.py   vector search (NumPy, exact)
"""
