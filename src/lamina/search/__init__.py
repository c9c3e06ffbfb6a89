"""Search: works on steppers, independently of models."""
