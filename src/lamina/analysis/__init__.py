"""Analyses of trained runs: numbers, figures and HTML pages."""
