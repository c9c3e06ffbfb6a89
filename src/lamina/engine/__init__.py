"""The CPU engine: a model becomes a program over packed weights, and a whole search is one compiled call.

host ─► vectors ─► products, int8 ─► machine ─► search      compiled; numba and numpy only
program ◄── lowering ◄── model                              what is executed, made from torch modules
cache ─► program                                            what was lowered before, without torch
engine, stepper                                             what the rest of Lamina calls
"""
