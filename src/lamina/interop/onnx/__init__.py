"""Export to ONNX: every system, for any runtime that knows the format."""

from lamina.interop.onnx.export import export_onnx

__all__ = ["export_onnx"]
