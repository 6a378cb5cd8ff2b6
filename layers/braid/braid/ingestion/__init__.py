"""Writes and deletes records, edges and vertices in both stores: validation, supersession, imports and repair.

::

    item_parsing.py       parses JSON items into records, vertices and edges
    inline_writes.py      writes the items of one call or queue message
    request_checks.py     validates a write request and resolves the endpoints of its edges
    item_refusals.py      refuses invalid items, each with its field and what to do instead
    record_vectors.py     computes the vectors of records, once each, also ahead of their write
    entities_found_in_texts.py  makes vertices and edges of the names that understanding.name_finding finds in texts
    given_entity_linking.py     links names in texts to given entities
    writing.py            embeds and writes one request to both stores
    writer_slots.py       limits the concurrent writes of all processes, re-embedding included
    intent_log.py         intent log of writes that two stores cannot commit together; repair.py completes them
    regular_files.py      opens files that users name; refuses pipes and devices
    tenant_locks.py       locks of each tenant's writes and deletes in this process
    deleting.py           deletes records and documents
    tenant_deletion.py    deletes all data of a tenant
    repair.py             compares both stores and repairs the graph, for `braid repair`
    archive_export.py     exports a tenant to an archive folder
    archive_import.py     imports an archive into a tenant, and verifies it
    supersession/         finds, checks and applies supersession of records and edges
    documents/            reads documents, and keeps folders of them ingested
    bulk/                 imports large JSON Lines objects
"""
