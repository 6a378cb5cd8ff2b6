"""Evaluation on judged questions.

``configurations`` are compared by ``run``; ``figures`` scores them; ``failures`` explains the worst questions; ``show``
renders on a terminal, ``plots`` and ``document`` for the documentation.
"""
