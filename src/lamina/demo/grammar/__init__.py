"""Synthetic English–German corpus from a synchronous grammar, identical on every machine."""

from lamina.demo.grammar.pairs import Split, demo_pairs, write_demo

__all__ = ["Split", "demo_pairs", "write_demo"]
