"""Parses questions into intent, steps and plan, and finds the names in any text. Pure functions.

- ``intent``: mode, intent and embedding type, the causal or temporal walks that answer a question, and whether it names
  a date, which never sets ``as_of``: only a request does
- ``multi_hop``: steps along a chain of relationships; ``fact_questions``: which relationships a question asks for
  as its answer
- ``relations``: matches a question's words with relationship types and predicates, and says an edge as a sentence
- ``planning``, ``graph_constraint_cost``: the plan with its reasons, and the estimated cost of a graph constraint
- ``question_phrases``: which words of a question are meant as a name
- ``name_keys``, ``misspelling_keys``: keys by which a name is stored, and by which questions look it up
- ``name_finding``, for writes: the names in texts that are stored, both those that are written like names
  (``name_patterns``, and the ``sentence_openers``) and those that the tenant has given (``given_names_in_texts``)
- ``encoder_windows``: splits a long text into parts that fit the encoder's window
- ``tokens``: words, search terms, stop words, ideographs, normalisation in linear time
"""
