"""The document store in one SQLite file.

tables.py    what the file holds
rows.py      documents as they are stored, and what is refused
filling.py   adding, replacing, deleting; sources and collections
reading.py   listing and fetching
filters.py   metadata filters as SQL
words.py     the search for words (FTS5, BM25)
vectors.py   the search for meaning (NumPy, exact)
search.py    one question, from rankings to hits
"""
