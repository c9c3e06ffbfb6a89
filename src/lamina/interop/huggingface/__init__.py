"""Hugging Face: export of plain Transformers, upload of any model to the Hub, import of Marian checkpoints."""

from lamina.interop.huggingface.export import export_huggingface

__all__ = ["export_huggingface"]
