"""How good an output is, and whether the difference between two is more than chance."""
