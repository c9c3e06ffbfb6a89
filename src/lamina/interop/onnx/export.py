"""ONNX export: a folder with two graphs, the text pipeline's files, `run.py` and a model card."""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

from lamina.base.files import atomic_folder, digest, require_absent
from lamina.base.reading import sealed
from lamina.errors import DataError, MissingExtraError
from lamina.interop.onnx.graphs import StepGraph, Traced, cache_shapes, describe_graphs, make_traceable
from lamina.interop.onnx.operators import register_operators
from lamina.model.seq2seq import Seq2Seq
from lamina.names import option
from lamina.recipe.decode import SearchSettings
from lamina.store.model_files import CARD
from lamina.store.onnx_folder import DECODER, DESCRIPTION, ENCODER, FORMAT, SCRIPT
from lamina.text.pipeline import TextPipeline
from lamina.text.vocabulary import EOS
from lamina.version import __version__

OPSET = 18  # first with min and max reductions of ScatterElements; requires onnxruntime 1.14


def export_onnx(model: Seq2Seq, text: TextPipeline, decode: SearchSettings, out: Path, int8: bool = False) -> None:
    """Write both graphs in fp32, or with int8 weights of matrix products."""
    require_extra(int8)
    require_absent(out)
    twin = make_traceable(model)
    with torch.no_grad():
        encoder, step = describe_graphs(twin)
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            with atomic_folder(out) as partial:
                for graph, name in ((encoder, ENCODER), (step, DECODER)):
                    write_graph(graph, partial / name, int8)
                text.save(partial)
                script = Path(__file__).with_name(SCRIPT).read_bytes()
                (partial / SCRIPT).write_bytes(script)
                (partial / CARD).write_text(card(twin, text, int8), encoding="utf-8")
                digests = {path.name: digest(path) for path in sorted(partial.iterdir()) if path.name != CARD}
                description = describe_folder(twin, encoder, step, decode, int8, digests)
                (partial / DESCRIPTION).write_text(json.dumps(sealed(description), indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise DataError(f"{out}: cannot be written ({error.strerror}).") from error


def require_extra(int8: bool) -> None:
    """Raise unless onnx and, for int8, onnxruntime are installed."""
    try:
        import onnx  # noqa: F401

        if int8:
            import onnxruntime  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(option("to", "onnx"), "onnx") from error


def write_graph(graph: Traced, path: Path, int8: bool) -> None:
    """Trace a module and write its graph; the axes in `graph.dynamic` stay dynamic."""
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        full = Path(scratch) / path.name if int8 else path
        with warnings.catch_warnings():
            # tracing warns of data-dependent branches (harmless here) and of the deprecated exporter
            warnings.simplefilter("ignore")
            register_operators(OPSET)
            torch.onnx.export(
                graph.module,
                graph.example,
                str(full),
                input_names=graph.inputs,
                output_names=graph.outputs,
                dynamic_axes=graph.dynamic,
                opset_version=OPSET,
                dynamo=False,
            )
        if int8:
            quantise(full, path)


def quantise(full: Path, path: Path) -> None:
    """Quantise weights of matrix products to int8; activations are quantised at run time."""
    import logging

    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(full)
    split_products(model.graph)
    logging.getLogger().addFilter(_drop_record)  # recommends preprocessing that these graphs do not need
    try:
        quantize_dynamic(
            model,
            path,
            op_types_to_quantize=["MatMul"],
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,  # 7 bits: sums of 8-bit products overflow on CPUs without VNNI
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )
    finally:
        logging.getLogger().removeFilter(_drop_record)


def split_products(graph: Any) -> None:
    """Split Gemm nodes into MatMul and Add: the quantiser would transpose a shared weight once per node."""
    from onnx import helper, numpy_helper

    weights = {each.name: each for each in graph.initializer}
    nodes, transposed = [], set()
    for node in graph.node:
        if node.op_type != "Gemm":
            nodes.append(node)
            continue
        options = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        assert options.get("transB") == 1, "torch exports linear layers with transB"
        x, weight, *bias = node.input
        if weight not in transposed:
            transposed.add(weight)
            weight_T = numpy_helper.to_array(weights[weight]).T.copy()
            graph.initializer.append(numpy_helper.from_array(weight_T, f"{weight}.T"))
        product = f"{node.name}.product" if bias else node.output[0]
        nodes.append(helper.make_node("MatMul", [x, f"{weight}.T"], [product], f"{node.name}.matmul"))
        if bias:
            nodes.append(helper.make_node("Add", [product, *bias], list(node.output), f"{node.name}.add"))
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    kept = [each for each in graph.initializer if each.name in used]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _drop_record(record: object) -> bool:
    return False


def describe_folder(
    model: Seq2Seq, encoder: Traced, step: Traced, decode: SearchSettings, int8: bool, digests: dict[str, str]
) -> dict[str, Any]:
    """Content of `onnx.json`."""
    assert isinstance(step.module, StepGraph)
    return {
        "format": FORMAT,
        "opset": OPSET,
        "quantised": int8,
        "start_id": model.start_id,
        "target_vocab": model.config.target_vocab,
        "memories": encoder.outputs[1:],
        "caches": [{"name": name, "shape": shape} for name, shape in cache_shapes(model, step.module.example)],
        "decode": decode.model_dump(mode="json"),
        "model": model.config.model_dump(mode="json"),
        "sha256": digests,
    }


def card(model: Seq2Seq, text: TextPipeline, int8: bool) -> str:
    """Model card with usage instructions."""
    config = model.config
    packages = " sacremoses" * (text.source.tokeniser is not None) + " subword-nmt" * (text.kind == "bpe")
    return f"""\
# ONNX model

{config.encoder.type} × {config.bridge.type} × {config.head.type}: {config.depth()}, {config.norm}-norm, \
d_model {config.d_model}; \
{"weights of matrix products in 8 bits" if int8 else "32 bits"}, opset {OPSET}. Written by Lamina {__version__}.

    pip install onnxruntime numpy sentencepiece{packages}
    python run.py < input > output

`lamina translate` also reads this folder.

| graph | inputs | outputs |
|---|---|---|
| `{ENCODER}` | `source` (sources, length), ids that end with {EOS}, padded with {model.pad_id} | `valid` and the \
memories, one row per source |
| `{DECODER}` | `tokens` (rows), `position` from 0, `valid`, the memories, the caches | `log_probs` (rows, \
{config.target_vocab}) and the caches with this step, `present.*` |

There is one row per hypothesis, and the hypotheses of a source are adjacent; the first token is {model.start_id}.
`{DESCRIPTION}` lists the memories and caches; `{SCRIPT}` shows how to use them.
"""
