"""The demo: a guided tour over incident archives of two companies and a folder of documents.

``tour`` is ``braid demo``; ``schema_change`` is its last part; ``wrenfield_files`` writes the documents that are not
text. The folders have the data.
"""
