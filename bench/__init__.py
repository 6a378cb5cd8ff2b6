"""Measurements: side-by-side ratios of one run, never tests."""
