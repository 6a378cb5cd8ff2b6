"""Shared runtime of the Lambda handlers.

::

    stage_handlers.py   handlers of stages with logs, metrics and traces; metrics of answers
    fifo_batches.py    handlers of FIFO queue batches
    warm_up.py         initialisation during a cold start
"""
