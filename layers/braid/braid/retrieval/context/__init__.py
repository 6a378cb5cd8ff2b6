"""Contexts: what to show a language model before it answers."""
