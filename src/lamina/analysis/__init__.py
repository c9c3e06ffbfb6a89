"""Analyses of runs: numbers, figures and pages."""
