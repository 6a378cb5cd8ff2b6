"""Writes and deletes records, edges and vertices in both stores: validation, supersession, imports and repair.

::

    items.py              parses JSON items into records, vertices and edges inline_writes.py      writes the items of
    one call or queue message request_checks.py     validates a write request and resolves the endpoints of its edges
    item_refusals.py      refuses items of a request, each with its field and the way out record_vectors.py     computes
    the vectors of records, once and ahead of their write vertices_of_found_names.py  makes vertices and edges of the
    names that understanding.name_finding finds in a write's texts given_entity_linking.py  tells which given entity a
    name in a write's texts means writing.py            embeds and writes one request to both stores writer_slots.py
    limits of the batches and writes that run at once in all processes, re-embedding included intent_log.py         the
    intent log of writes that two stores cannot commit together; repair.py completes them regular_files.py      opens
    files that users name, refusing pipes and devices tenant_locks.py       locks of each tenant's writes and deletes in
    this process deleting.py           deletes records and documents tenant_deletion.py    deletes all data of a tenant
    repair.py             compares both stores and repairs the graph, when `braid repair` asks archive_export.py
    exports a tenant to a folder, and verifies one archive_import.py     imports such a folder into a tenant
    supersession/         ends the validity of what newer records and edges supersede, and refuses what must not
    documents/            reads documents, and keeps folders of them ingested bulk/                 imports of large
    JSON Lines objects
"""
