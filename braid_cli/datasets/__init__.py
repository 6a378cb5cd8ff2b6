"""Reading, checking and ingesting datasets: folders, files of lines and graph files.

``ingest`` writes a folder or a graph, ``ingest_file`` a file of lines. ``dataset`` reads a folder into memory,
``streaming`` line by line; ``graph_file`` reads a graph. ``staging`` holds on the disk what a check of the whole needs,
``manifest`` keeps what a folder wrote, so that a later ingest removes what the folder no longer has.
"""
