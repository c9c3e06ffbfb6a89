"""ONNX export of any system."""

from lamina.interop.onnx.export import export_onnx

__all__ = ["export_onnx"]
