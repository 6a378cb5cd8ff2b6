"""Readers of one format each: a source in, a document out. Their libraries are imported when a file needs them."""
