"""Shared runtime of the Lambda handlers.

::

    stage_handlers.py  makes the handler of a function: parses, logs, metrics, traces; metrics of answers
    fifo_batches.py    handlers of FIFO queue batches
    warm_up.py         initialisation during a cold start
"""
