"""Reads documents of many formats, cuts them into chunks and keeps a folder of them ingested.

::

    document.py        a document: title, sections, metadata; limits of reading one
    metadata_files.py  metadata of a document from the file beside it
    reader_selection.py  which reader reads a file
    readers/           one format each: pages, sections and tables of a file, not yet chunks
    reader_process.py  reads in a process of its own, within limits of time and memory
    chunking.py        cuts a document of any format into chunks by its structure
    chunk_records.py   ids and records of a document's chunks; file, heading, line and position as their metadata
    folder_listing.py  files of a folder
    folder_state.py    stores the state of an ingested folder: the version of each file that was read
    ingesting.py       ingests folders and files: compares them with that state, writes new and removes deleted ones
    uploads.py         documents in the object store, as lines of records to import
    progress.py        events of an ingest
"""
