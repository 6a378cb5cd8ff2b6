"""Readers of one format each: a source in, a document out. Their libraries are imported when a file needs them.

:data:`braid.ingestion.documents.reading.READERS` says which one reads a file. A further format is a module here and an
entry there. EPUB, for instance, would need a module, the suffix ``.epub`` in ``READERS``, and, as a ZIP archive, also
the name of a file inside of it, ``META-INF/container.xml``, in ``_PACKED``, and its reader in ``_NOT_TEXT``; a file in
``every_format`` of ``tests/document_files.py``, for the tests of all formats; and a row in the table of
``docs/ingest.md``. A library that it needs belongs to the extra ``documents``.
"""
