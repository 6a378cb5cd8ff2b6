"""Reads, checks and ingests datasets: folders, JSON Lines files and graph files.

- ``ingest`` ingests a folder or a graph, ``ingest_file`` a JSON Lines file; ``checks_against_stores`` checks a dataset
  against the stores
- ``dataset`` reads a folder into memory, with queries and qrels; ``streaming`` reads it line by line; both use
  ``json_lines``
- ``graph_file`` reads a graph in one of the ``graph_formats``, whose nodes and edges ``graph_elements`` converts to
  vertices and relationships
- ``ir_dataset`` converts a dataset of ir_datasets to such a folder
- ``staging`` holds tables of a dataset on disk, for checks of the whole; ``manifest`` stores the ids that an ingest
  wrote, so that a later one can delete those that are gone
"""
