"""Importing an object of many lines in repeatable steps."""
