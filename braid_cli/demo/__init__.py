"""The demo: two companies' incident archives, and a tour of them.

``tour`` is ``braid demo``; ``schema_change`` is its last part. The folders are datasets.
"""
