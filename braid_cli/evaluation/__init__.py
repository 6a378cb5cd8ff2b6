"""Measuring retrieval on judged questions: ways of answering, figures with intervals, failures, plots, documents."""
