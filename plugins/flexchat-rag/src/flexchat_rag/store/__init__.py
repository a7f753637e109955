"""The document store in one SQLite file.

database.py  the schema, documents as rows, and what is read and written within one transaction
filters.py   metadata filters as SQL
search.py    word search (FTS5, BM25), and combination of rankings into hits
vectors.py   vector search (NumPy, exact)
"""
