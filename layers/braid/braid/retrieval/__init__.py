"""Answering a question: the stages, the pipeline that calls them, the caches, and contexts."""
