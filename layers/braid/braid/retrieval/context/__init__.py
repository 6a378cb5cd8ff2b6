"""Contexts: messages to show a language model before it answers.

The question is searched as it is given: messages of the conversation are shown, but neither complete nor rewrite it.

- ``building``: retrieves trusted items from the conversation, stored records and episodes; ``message_selection``:
  makes messages of the retrieved texts, scores them and selects the best
- ``episodes``: writes and searches decisions and tool calls; ``text_fences``: delimiters around
  retrieved text
"""
