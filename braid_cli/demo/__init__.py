"""The demo: incident archives of two companies, a folder of documents, and a tour of all three.

``tour`` is ``braid demo``; ``schema_change`` is its last part, and ``wrenfield_files`` makes the documents of
its third. The folders are datasets.
"""
