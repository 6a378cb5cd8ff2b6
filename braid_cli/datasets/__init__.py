"""Reading, checking and ingesting datasets: folders, files of lines and graph files.

- ``ingest`` writes a folder or a graph, ``ingest_file`` a file of lines; ``contradictions`` compares it with the stores
- ``dataset`` reads a folder into memory, its queries and qrels with it, ``streaming`` line by line; both with
  ``json_lines``
- ``graph_file`` reads a graph in one of ``graph_formats``, whose nodes and edges ``graph_elements`` turns into vertices
  and relationships
- ``ir_dataset`` fetches a dataset of ir_datasets by its id, as such a folder
- ``staging`` holds on the disk what a check of the whole needs; ``manifest`` keeps what a folder wrote, so that a later
  ingest removes what the folder no longer has
"""
