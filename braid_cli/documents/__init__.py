"""Documents on the command line: recognised, ingested with their progress shown, and listed."""
