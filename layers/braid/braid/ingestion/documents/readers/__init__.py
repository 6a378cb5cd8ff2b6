"""Readers of one format each: a source in, a document out. Their libraries are imported when a file needs them.

``text``, ``markdown`` (with ``hidden_html_in_markdown``: what a browser would not show), ``html``, ``pdf``, ``word``
(DOCX, with ``docx_numbering``), ``office`` (PPTX, XLSX), ``opendocument`` (ODT, ODP, ODS), ``rtf``, ``epub``,
``tables`` (CSV, JSON), ``code``, ``notebook``, ``mail``. ``archives`` has what those of ZIP archives share;
``encodings`` detects the encoding of text.

:mod:`braid.ingestion.documents.reader_selection` selects the reader of a file. A new format needs:

1. a module here;
2. in ``reader_selection``, its suffix in ``READERS``; if it is in ``_REFUSED``, it goes from there. A binary format
   also needs its reader in ``_BINARY_READERS``, and a rule that recognises its content: for a ZIP archive, a name
   in it (``word/document.xml``) in ``_ARCHIVE_READERS``; for another, a condition in ``reader_of``;
3. a file in ``every_format`` of ``tests/document_files.py``, for the tests of all formats;
4. a row in the table of ``docs/ingest.md``;
5. if it needs a library, that library in the extra ``documents``.
"""
