"""Writes and deletes records, edges and vertices in both stores: validation, supersession, imports and repair.

::

    items.py             parses JSON items into records, vertices and edges
    inline_writes.py     writes the items of one call or queue message
    checks.py            validates a write request and resolves the ends of its edges
    supersession.py      finds, checks and applies supersession
    writing.py           embeds and writes one request to both stores
    unfinished_writes.py intent log of writes that cannot be atomic
    deleting.py          deletes records and documents
    tenant_deletion.py   deletes all data of a tenant
    repair.py            compares both stores and repairs the graph
    documents/           reads documents, and keeps folders of them ingested
    bulk/                imports of large JSON Lines objects
"""
