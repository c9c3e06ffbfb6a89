"""Training: any recipe, resumable at any moment, on one process or many."""
