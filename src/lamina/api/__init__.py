"""The Python API: commands as functions. Importing it does not import torch."""
