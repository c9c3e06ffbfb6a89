"""The published systems as data, and models built from their names."""
