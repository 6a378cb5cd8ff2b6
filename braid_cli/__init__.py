"""The laptop: command line, datasets, evaluation, model export, and the state machine run here."""
