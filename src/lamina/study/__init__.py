"""Studies: grids of recipes × seeds, trained, evaluated and compared."""
