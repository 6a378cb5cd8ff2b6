"""Stores and models behind the ports."""
