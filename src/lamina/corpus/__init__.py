"""From raw parallel text to batches."""
