"""Attacks, kept: each asks for what must be refused, bounded or survived, and fails where it is not."""
