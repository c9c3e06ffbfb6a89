"""`lamina demo`: a grammar that generates parallel text, two training runs and a report."""
