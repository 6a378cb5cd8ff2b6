"""Readers of one format each: a source in, a document out. Their libraries are imported when a file needs them.

:data:`braid.ingestion.documents.reading.READERS` says which one reads a file. A further format is a module here and an
entry there; one that is a ZIP archive, as EPUB is, also goes to the formats that are looked into beside it.
"""
