"""The HTTP interface on a laptop."""
