"""From text to meaning: a question's intent, steps and plan, and the names in it. Pure functions.

- ``question``: mode, intent, embedding type and direction, and which walks along causes or time answer
- ``multi_hop``: a chain of relationships as steps
- ``planning``, ``selectivity``: the plan with its reasons, and the estimated cost of a graph constraint
- ``names``: names in a question, and their variants
- ``tokens``: words, search terms, stop words, ideographs, normalisation in linear time
"""
