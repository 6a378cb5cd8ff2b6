"""Parses questions into intent, steps and plan, and finds the names in any text. Pure functions.

- ``intent``: mode, intent and embedding type, the causal or temporal walks that answer a question, and whether it names
  a date (which never sets ``as_of``: only a request does)
- ``multi_hop``: steps along a chain of relationships; ``fact_questions``: the relationships that a question asks for
- ``question_relations``: matches a question's words with relationship types and predicates, and writes an edge as a
  sentence
- ``planning``, ``graph_constraint_cost``: the plan with its reasons, and the estimated cost of a graph constraint
- ``question_phrases``: phrases of a question that may be names
- ``name_keys``, ``misspelling_keys``: keys by which names are stored and looked up
- ``name_finding``, for writes: finds names in texts, both by their form (``name_patterns``, ``sentence_openers``) and
  by the tenant's given names (``given_names_in_texts``)
- ``encoder_windows``: splits a long text into parts that fit the encoder's window, and embeds them with it
- ``tokens``: words, search terms, numbers with and without separators, stop words, ideographs, normalisation
"""
