"""Readers of one format each: a source in, a document out. Their libraries are imported when a file needs them.

:data:`braid.ingestion.documents.reading.READERS` says which one reads a file.
"""
