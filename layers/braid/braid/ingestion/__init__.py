"""Writes and deletes records, edges and vertices in both stores: validation, supersession, imports and repair.

::

    items.py             parses JSON items into records, vertices and edges
    inline_writes.py     writes the items of one call or queue message
    checks.py            validates a write request and resolves the ends of its edges
    item_checks.py       refuses items of a request, each with its field and the way out
    found_names.py       vertices and mentions of the names found in the texts of a write
    supersession.py      finds, checks and applies supersession
    writing.py           embeds and writes one request to both stores
    intent_log.py        intent log of writes that cannot be atomic
    tenant_locks.py      locks of a tenant's writes and deletes in this process
    deleting.py          deletes records and documents
    tenant_deletion.py   deletes all data of a tenant
    repair.py            compares both stores and repairs the graph
    archive.py           exports a tenant to a folder, and verifies one
    archive_import.py    imports such a folder into an empty tenant
    documents/           reads documents, and keeps folders of them ingested
    bulk/                imports of large JSON Lines objects
"""
