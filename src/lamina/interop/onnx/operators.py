"""Custom exports of operators."""

from __future__ import annotations

from typing import Any

import torch
from torch.onnx.symbolic_helper import parse_args
from torch.onnx.utils import register_custom_op_symbolic


def register_operators(opset: int) -> None:
    """Register the custom operators with torch's exporter."""
    register_custom_op_symbolic("aten::logaddexp", write_logaddexp, opset)
    register_custom_op_symbolic("aten::scatter_reduce", write_scatter_reduce, opset)


def write_logaddexp(graph: Any, a: Any, b: Any) -> Any:
    """log(eᵃ + eᵇ) = max + log(1 + e^(min − max))."""
    high, low = graph.op("Max", a, b), graph.op("Min", a, b)
    ratio = graph.op("Exp", graph.op("Sub", low, high))
    one = graph.op("Constant", value_t=torch.tensor(1.0))
    return graph.op("Add", high, graph.op("Log", graph.op("Add", ratio, one)))


@parse_args("v", "i", "v", "v", "s", "b")
def write_scatter_reduce(graph: Any, x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool) -> Any:
    """Export without torch's branch for scalars, which makes onnxruntime warn about shapes."""
    assert include_self, "ScatterElements always includes self"
    return graph.op("ScatterElements", x, index, source, axis_i=dim, reduction_s={"amin": "min", "amax": "max"}[reduce])
