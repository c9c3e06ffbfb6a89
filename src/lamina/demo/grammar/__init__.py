"""A demo corpus as code: English and German sentences from one synchronous grammar, the same on every machine."""

from lamina.demo.grammar.pairs import Split, demo_pairs, write_demo

__all__ = ["Split", "demo_pairs", "write_demo"]
