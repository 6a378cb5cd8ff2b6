"""Answers questions: stages, pipeline, caches and contexts.

``pipeline`` runs the ``stages`` of one question in process, and continues without a failed store; ``caches`` has
the caches of question vectors, answers and graph look-ups; ``context`` builds the context of a model's next answer;
``tenant_search`` is the Python interface to one tenant; ``listing`` pages through stored documents and entities;
``use_counts`` counts uses of records.
"""
