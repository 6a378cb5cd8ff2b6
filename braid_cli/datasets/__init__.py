"""Dataset folders and graph files: read, checked and written to the stores."""
