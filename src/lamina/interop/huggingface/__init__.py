"""Hugging Face: plain Transformers for `transformers`, any model for the hub, and Marian's checkpoints in."""

from lamina.interop.huggingface.export import export_huggingface

__all__ = ["export_huggingface"]
