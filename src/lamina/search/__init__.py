"""Search over steppers, independent of models; `engine/search.py` is the compiled search of the CPU engine."""
