"""Answering a question.

``pipeline`` runs the ``stages`` of one question in process; ``caches`` keeps vectors, answers and graph answers;
``context`` builds the context of a model's next answer; ``tenant_questions`` are the questions that one tenant asks;
``listing`` pages through what is stored; ``use_counts`` counts what was returned or opened.
"""
