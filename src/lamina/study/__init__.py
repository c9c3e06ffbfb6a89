"""Studies: grids of systems × seeds, trained, evaluated and compared."""
