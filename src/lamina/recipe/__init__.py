"""The typed recipe: its schema, and a loader that reports every problem at once."""
