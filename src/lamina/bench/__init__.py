"""Benchmarks of `lamina bench`."""
