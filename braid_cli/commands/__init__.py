"""The commands of ``braid``."""
