"""From text to meaning: a question's intent, steps and plan, and the names in any text. Pure functions.

- ``intent``: mode, intent and embedding type, and which walks along causes or time answer
- ``multi_hop``: a chain of relationships as steps; ``facts``: which relationships are asked for as the answer
- ``relations``: a question's words beside relationship types and predicates
- ``planning``, ``selectivity``: the plan with its reasons, and the estimated cost of a graph constraint
- ``name_forms``, for questions and writes: keys and forms by which a name is stored and looked up; for questions:
  which of their words are meant as a name
- ``name_finding``, for writes: the names in texts that are stored, both those that are written like names
  (``name_patterns``) and those that the tenant has given (``given_names``)
- ``text_parts``: a long text as parts that fit the encoder's window
- ``tokens``: words, search terms, stop words, ideographs, normalisation in linear time
"""
