"""Grids of trainings: recipes × seeds, evaluated and compared."""
