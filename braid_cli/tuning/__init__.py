"""Fitting fusion parameters on judged questions, with cross-validation.

- ``captured`` asks each question once and fuses it again with other parameters
- ``coordinate_search`` finds parameters; ``run`` cross-validates and writes them; ``show`` renders the result
"""
