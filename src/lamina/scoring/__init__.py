"""Metrics and significance tests."""
