"""The Python API: the main commands as functions. Importing it does not import torch."""
