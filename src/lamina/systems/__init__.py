"""The published systems, and models built from their names."""
