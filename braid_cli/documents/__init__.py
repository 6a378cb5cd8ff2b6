"""Ingests documents on the command line.

``dataset_or_documents`` distinguishes documents from datasets; ``ingest`` ingests them and shows the progress.
"""
