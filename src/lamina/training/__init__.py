"""Training of any recipe, resumable at any time, in one or several processes."""
