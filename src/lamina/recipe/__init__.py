"""Recipes: their schema, and a loader that reports all problems at once."""
