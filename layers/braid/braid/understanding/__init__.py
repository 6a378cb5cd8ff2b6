"""From text to meaning: a question's intent, steps and plan, and the names in any text. Pure."""
