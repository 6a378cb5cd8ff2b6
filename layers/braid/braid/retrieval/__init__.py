"""Answering a question.

``pipeline`` runs the ``stages`` of one question in process; ``caches`` keeps vectors, answers and graph answers;
``context`` builds the context of a model's next answer; ``library`` is the Python interface to one tenant.
"""
