"""`lamina demo`: a grammar that writes parallel text, two trainings, and a report."""
