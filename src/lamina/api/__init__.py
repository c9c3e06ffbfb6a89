"""The Python API: each command as a function. Importing it does not import torch."""
