"""Fits fusion parameters on judged questions, with cross-validation.

- ``captured_questions`` captures the hits of each question once, and repeats their fusion with other parameters
- ``coordinate_search`` searches parameters; ``run`` cross-validates and writes them; ``show`` renders the result
"""
