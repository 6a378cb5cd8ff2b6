"""From text to meaning: a question's intent, steps and plan, and the names in it. Pure functions.

- ``question``: mode, intent, embedding type and direction, read from the words
- ``multi_hop``: a chain of relationships as steps
- ``planning``, ``selectivity``: the plan with its reasons, and the estimated cost of a graph constraint
- ``walk_preference``: which walks along causes or time answer the question
- ``linking``, ``name_forms``: names in a question, and variants of names
- ``tokens``: words, search terms, stop words, ideographs
- ``unicode_forms``: normalisation in linear time
"""
