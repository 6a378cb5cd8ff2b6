"""Reads documents of many formats, cuts them into chunks and keeps a folder of them ingested.

::

    document.py         a document: title, sections, metadata; limits of reading one
    reading.py          which reader reads a file
    readers/            one format each
    reader_process.py   reads in a process of its own, within limits of time and memory
    chunking.py         cuts a document into chunks by its structure
    records.py          ids and records of a document's chunks
    files.py            files of a folder
    state.py            what was read of which file
    ingesting.py        ingests folders and files
    progress.py         events of an ingest
"""
