"""Hosted rerankers, and the choice among all rerankers."""
