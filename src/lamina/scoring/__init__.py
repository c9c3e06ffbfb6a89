"""Evaluation metrics and significance tests."""
