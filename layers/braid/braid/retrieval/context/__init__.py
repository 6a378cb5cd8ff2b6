"""Contexts: messages to show a language model before it answers.

- ``building``: retrieves what is trusted from the conversation, stored records and episodes; ``message_selection``:
  makes messages of the retrieved texts, scores and selects
- ``episodes``: writes and searches decisions and tool calls; ``fence``: delimiters around retrieved text
"""
