"""Export to ONNX: every system, for any ONNX runtime."""

from lamina.interop.onnx.export import export_onnx

__all__ = ["export_onnx"]
