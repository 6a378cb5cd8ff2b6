"""Documents on the command line.

``recognise`` tells them from datasets; ``ingest`` ingests them and shows the progress.
"""
