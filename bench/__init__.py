"""Benchmarks: ratios measured side by side in one run. They are not tests."""
