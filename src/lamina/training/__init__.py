"""Training of any recipe, resumable at any step, in one or more processes."""
