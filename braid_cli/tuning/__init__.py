"""Fitting the parameters of fusion on judged questions, with cross-validation."""
