"""The CPU engine: a model is lowered to a program over packed weights, and a whole search is one compiled call.

vectors ─► products, int8 ─► operations ─► machine ─► search    compiled; numba and numpy only
program ◄── lowering ◄── model                                  lowers torch modules to instructions
cache ─► program                                                loads lowered models without torch
engine, stepper                                                 the interface for the rest of Lamina
"""
