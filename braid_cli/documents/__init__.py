"""Ingests documents on the command line.

``recognise`` distinguishes documents from datasets; ``ingest`` ingests them and shows the progress.
"""
