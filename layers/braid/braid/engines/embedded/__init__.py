"""Engines that need nothing but a folder: one SQLite file, and vector indexes beside it."""
