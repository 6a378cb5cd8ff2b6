"""Contexts: what to show a language model before it answers.

- ``building``: from the conversation, stored records and episodes; ``selection``: scores and chooses
  what to show, and makes messages of what was retrieved
- ``episodes``: decisions and tool calls that were written down; ``fence``: marks around retrieved text
"""
