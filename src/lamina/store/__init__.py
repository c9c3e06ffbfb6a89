"""Runs, checkpoints, metrics and model folders on disk."""
