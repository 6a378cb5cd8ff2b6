"""Imports large JSON Lines objects in repeatable steps. ``archive_import`` imports archives of ``braid export``.

Messages of a queue, of a hundred items at most each, are written by :mod:`braid.ingestion.inline_writes`.

::

    step_messages.py  requests and responses of the steps
    import_steps.py   the steps of the workflow: split, page, batch, lost, finish
    batch_phases.py   selects the part of a batch that each phase writes
    fingerprints.py   sorted 8-byte fingerprints of edges, with a membership test
    manifest.py       state of a job in the object store: batches, results, report
    import_queue.py   queue of imports in this process: limits per tenant and in all, round-robin over tenants
"""
