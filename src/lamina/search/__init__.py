"""Search over any `Stepper`: beam search and sampling."""
