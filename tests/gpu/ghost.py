"""A simulated GPU for tests: tensors that report `cuda:N` and are computed on the CPU.

A `GhostTensor` wraps a CPU tensor, and reports the device to torch's C++ too: autocast, dropout, the GRU cell, fused
Adam and GradScaler take the routes of a GPU, with real numbers. Within `GhostGpu`

- an operation on tensors of two devices raises `DeviceMismatch`, as does `.numpy()`,
- every place where the host would wait for the device is counted, with the line of Lamina that asked,
- so are copies between host and device, and operations, each of which is about one kernel launch.

It cannot show missing CUDA kernels, errors of streams or memory, atomics, or which attention kernel is chosen.

Load it before torch: `PYTHONPATH=tests pytest -p gpu.ghost tests/gpu`. `MISSING` is the reason if it cannot be built.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

HERE = Path(__file__).parent
SOURCE = f"{os.sep}src{os.sep}lamina{os.sep}"


def load_shim() -> tuple[Any, str | None]:
    """Load the compiled shim, or return why it is missing. It is compiled once per version of torch, in about 10 s."""
    if "torch" in sys.modules:
        return None, "torch was imported before the ghost: run `make gpu`"
    compiler = shutil.which("g++") or shutil.which("c++")
    found = importlib.util.find_spec("torch")
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent
    source = HERE / "shim.cpp"
    stamp = f"{os.getuid()}-{version('torch')}-{source.stat().st_mtime_ns}"
    made = Path(tempfile.gettempdir()) / f"lamina-ghost-{stamp}.so"
    if not made.exists():
        if compiler is None:
            return None, "no C++ compiler (g++) to build tests/gpu/shim.cpp with"
        partial = made.with_suffix(f".{os.getpid()}")
        lib = package / "lib"
        command = [compiler, "-std=c++20", "-O0", "-fPIC", "-shared", f"-I{package / 'include'}", str(source)]
        command += ["-o", str(partial), f"-L{lib}", "-lc10", "-ltorch_cpu"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return None, f"tests/gpu/shim.cpp does not compile: {done.stderr.strip().splitlines()[-1:]}"
        partial.rename(made)
    for name in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(package / "lib" / name), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(made), mode=ctypes.RTLD_GLOBAL), None


SHIM, MISSING = load_shim()

import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten  # noqa: E402

aten = torch.ops.aten
CPU = torch.device("cpu")


class DeviceMismatch(RuntimeError):
    """Raised where torch would raise on a real GPU."""


class _Current:
    """Device set by `torch.cuda.set_device`, and the active counting mode."""

    device = 0
    modes: list[GhostGpu] = []  # noqa: RUF012


class GhostTensor(torch.Tensor):
    """A CPU tensor that reports another device."""

    elem: torch.Tensor

    @staticmethod
    def __new__(cls: type[GhostTensor], elem: torch.Tensor, device: torch.device | None = None) -> GhostTensor:
        ghost: Any = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            elem.shape,
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            device=device or torch.device("cuda", _Current.device),
        )
        ghost.elem = elem
        return ghost

    def __tensor_flatten__(self) -> tuple[list[str], torch.device]:
        """Lets `nn.Module.to` swap parameters in place, so that tied ones stay tied."""
        return ["elem"], self.device

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], meta: torch.device, size: Any, stride: Any) -> GhostTensor:
        return GhostTensor(inner["elem"], meta)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"GhostTensor({self.elem!r}, device='{self.device}')"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.elem.detach().__reduce_ex__(protocol)  # as loaded by `torch.load(map_location="cpu")`

    def untyped_storage(self) -> Any:
        return self.elem.untyped_storage()

    def data_ptr(self) -> int:
        return self.elem.data_ptr()

    @property
    def data(self) -> torch.Tensor:
        return self.detach()

    @data.setter
    def data(self, other: GhostTensor) -> None:
        self.elem = other.elem

    def tolist(self) -> Any:
        if _Current.modes:
            _Current.modes[-1].note("to_host", "tolist")
        return self.elem.tolist()

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(None, func, args, kwargs or {})


# the host needs a number, or the size of a result, from the device
WAITING = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.equal.default,
    aten.is_nonzero.default,
    aten.unique_dim.default,
    aten._unique2.default,
    aten.repeat_interleave.Tensor,
    aten.allclose.default,
    aten.nonzero_static.default,
}
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}
COPIES = {aten._to_copy.default, aten.copy_.default, aten.copy.default}
TAKES_CPU_SCALARS = {aten.masked_fill.Tensor, aten.masked_fill_.Tensor, aten.fill_.Tensor, aten.fill.Tensor}
NO_KERNEL = {
    "view", "_unsafe_view", "expand", "permute", "transpose", "t", "slice", "select", "unsqueeze", "squeeze",
    "detach", "alias", "as_strided", "split", "split_with_sizes", "unbind", "chunk", "narrow", "lift_fresh",
    "lift", "_reshape_alias", "view_as_real", "unfold", "diagonal", "empty", "empty_like", "empty_strided",
    "new_empty", "new_empty_strided", "_local_scalar_dense", "is_nonzero", "_has_compatible_shallow_copy_type",
    "sym_size", "resize_", "set_",
}  # fmt: skip


def name_of(func: Any) -> str:
    return str(func._schema.name).split("::")[1]


def compute(mode: GhostGpu | None, func: Any, args: Any, kwargs: Any) -> Any:
    """Run an operation: check devices, count it, compute on the CPU and wrap the result."""
    leaves, spec = tree_flatten((args, kwargs))
    ghosts = [x for x in leaves if isinstance(x, GhostTensor)]
    plain = [x for x in leaves if isinstance(x, torch.Tensor) and not isinstance(x, GhostTensor)]
    asked = None if kwargs.get("device") is None else torch.device(kwargs["device"])
    if asked is not None and asked.type == "cuda" and asked.index is None:
        asked = torch.device("cuda", _Current.device)
    target = find_device(func, args, asked, ghosts)
    if func in COPIES:
        count_copy(mode, func, args, kwargs, target)
    elif ghosts:
        check_devices(func, args, leaves, ghosts, plain)
        if mode is not None:
            count_wait(mode, func, args, plain)
    if mode is not None and target.type == "cuda" and name_of(func) not in NO_KERNEL:
        mode.kernels[name_of(func)] += 1
    return run_on_cpu(func, leaves, spec, ghosts, target, asked is not None)


def find_device(func: Any, args: Any, asked: torch.device | None, ghosts: list[GhostTensor]) -> torch.device:
    """Device of the result."""
    if func in COPIES and func is not aten._to_copy.default:
        return args[0].device
    return asked or (ghosts[0].device if ghosts else CPU)


def check_devices(func: Any, args: Any, leaves: Any, ghosts: list[GhostTensor], plain: list[torch.Tensor]) -> None:
    """Raise where torch would: only scalars and indices may be on another device."""
    places = {x.device for x in ghosts if x.dim() > 0}
    large = [x for x in plain if x.dim() > 0]
    mixed = len(places) > 1
    if large and func in INDEXING:  # indices may be on the CPU, but not the indexed tensor and the values
        values = args[2] if len(args) > 2 else None
        mixed |= not isinstance(args[0], GhostTensor) or any(x is values for x in large)
    elif large or (
        plain and torch.Tag.pointwise not in func.tags and func not in TAKES_CPU_SCALARS and func not in INDEXING
    ):
        mixed = True
    if mixed:
        found = ", ".join(f"{tuple(x.shape)} {x.device}" for x in leaves if isinstance(x, torch.Tensor))
        raise DeviceMismatch(f"{func}: {found}")


def count_wait(mode: GhostGpu, func: Any, args: Any, plain: list[torch.Tensor]) -> None:
    """Count synchronisations: the host needs a value from the device, or copies an index to it."""
    if func in WAITING:
        mode.note("waits", name_of(func))
    if func in INDEXING:
        if any(isinstance(i, torch.Tensor) and i.dtype in (torch.bool, torch.uint8) for i in args[1]):
            mode.note("waits", name_of(func))
        if any(x.dim() > 0 for x in plain):
            mode.note("to_device", name_of(func))


def count_copy(mode: GhostGpu | None, func: Any, args: Any, kwargs: Any, target: torch.device) -> None:
    """Count copies to the device that synchronise: all but non-blocking ones from pinned memory."""
    source = args[0] if func is aten._to_copy.default else args[1]
    if mode is None or not isinstance(source, torch.Tensor):
        return
    here, there = isinstance(source, GhostTensor), target.type == "cuda"
    if here and not there:
        mode.note("to_host", name_of(func))
    elif there and not here:
        late = kwargs.get("non_blocking") or (func is not aten._to_copy.default and len(args) > 2 and args[2])
        mode.note("async_copies" if late and getattr(source, "ghost_pinned", False) else "to_device", name_of(func))


def run_on_cpu(func: Any, leaves: Any, spec: Any, ghosts: list[GhostTensor], target: torch.device, asked: bool) -> Any:
    args, kwargs = tree_unflatten([x.elem if isinstance(x, GhostTensor) else x for x in leaves], spec)
    known = {id(x.elem): x for x in ghosts}
    kwargs = {key: value for key, value in kwargs.items() if key != "pin_memory"}
    if asked:
        kwargs["device"] = CPU
    out = REPLACED.get(func, func)(*args, **kwargs)
    if func is aten._to_copy.default and target.type == "cpu" and ghosts and out is args[0]:
        out = out.clone()

    def wrap(x: torch.Tensor) -> torch.Tensor:
        if id(x) in known:
            return known[id(x)]
        return GhostTensor(x, target) if target.type == "cuda" else x

    return tree_map_only(torch.Tensor, wrap, out)


def fused_gru(ig: Any, hg: Any, hx: Any, ib: Any = None, hb: Any = None) -> Any:
    """GRU cell, which has a fused kernel only on CUDA."""
    ig, hg = (ig + ib, hg + hb) if ib is not None else (ig, hg)
    (ir, iz, inew), (hr, hz, hnew) = ig.chunk(3, 1), hg.chunk(3, 1)
    reset, update = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    new = (inew + reset * hnew).tanh()
    return new + update * (hx - new), torch.cat([reset, update, new, hx, hnew], 1)


def fused_gru_backward(grad: Any, workspace: Any, has_bias: bool) -> Any:
    reset, update, new, hx, hnew = workspace.chunk(5, 1)
    to_new = grad * (1 - update) * (1 - new * new)
    to_update = grad * (hx - new) * update * (1 - update)
    to_reset = to_new * hnew * reset * (1 - reset)
    to_input = torch.cat([to_reset, to_update, to_new], 1)
    to_hidden = torch.cat([to_reset, to_update, to_new * reset], 1)
    biases = (to_input.sum(0), to_hidden.sum(0)) if has_bias else (None, None)
    return to_input, to_hidden, grad * update, *biases


REPLACED: dict[Any, Callable[..., Any]] = {
    aten._thnn_fused_gru_cell.default: fused_gru,
    aten._thnn_fused_gru_cell_backward.default: fused_gru_backward,
}


class FusedAttention(torch.autograd.Function):
    """Counts attention as one kernel forward and one backward, as on a GPU; the CPU's would count as a dozen."""

    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, mask: Any, dropout: float, causal: bool) -> Any:
        inputs = [each.elem.detach().requires_grad_() for each in (query, key, value)]
        _Current.modes[-1].kernels["fused_attention"] += 1
        with _disable_current_modes(), torch.enable_grad():
            out = SDPA(*inputs, None if mask is None else mask.elem, dropout_p=dropout, is_causal=causal)
        ctx.kept, ctx.out = inputs, out
        return GhostTensor(by_position(out.detach()), query.device)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        _Current.modes[-1].kernels["fused_attention_backward"] += 1
        with _disable_current_modes():
            grads = torch.autograd.grad(ctx.out, ctx.kept, grad.elem)
        return *(GhostTensor(by_position(each), grad.device) for each in grads), None, None, None


def by_position(x_BHTK: torch.Tensor) -> torch.Tensor:
    """Use the memory layout of a GPU kernel: the heads of a position are adjacent."""
    return x_BHTK.transpose(1, 2).contiguous().transpose(1, 2)


SDPA = torch.nn.functional.scaled_dot_product_attention


def attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False
) -> Any:
    """torch's fused attention as a single kernel, with autocast's conversions before it."""
    if not isinstance(query, GhostTensor):
        return SDPA(query, key, value, attn_mask, dropout_p, is_causal)
    tensors = [query, key, value] if attn_mask is None else [query, key, value, attn_mask]
    check_devices(aten.bmm.default, (), tensors, [x for x in tensors if isinstance(x, GhostTensor)],
                  [x for x in tensors if not isinstance(x, GhostTensor)])  # fmt: skip
    if torch.is_autocast_enabled("cuda"):
        tensors = [each.to(torch.get_autocast_dtype("cuda")) for each in tensors]
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        _Current.modes[-1].kernels["bool_mask_to_float"] += 2
    return FusedAttention.apply(*tensors[:3], tensors[3] if attn_mask is not None else None, dropout_p, is_causal)


class GhostGpu(TorchDispatchMode):
    """Simulates two GPUs within the context and counts their operations."""

    def __init__(self, bf16: bool = True) -> None:
        super().__init__()
        self.bf16 = bf16
        self.waits: Counter[str] = Counter()
        self.to_host: Counter[str] = Counter()
        self.to_device: Counter[str] = Counter()
        self.async_copies: Counter[str] = Counter()
        self.kernels: Counter[str] = Counter()
        self.chosen: list[int] = []  # set by `torch.cuda.set_device`

    def note(self, kind: str, what: str) -> None:
        """Count an event under the innermost two lines of Lamina on the stack."""
        frames = [frame for frame in traceback.extract_stack() if SOURCE in frame.filename][-2:]
        lines = [f"{frame.filename.split(SOURCE)[-1]}:{frame.lineno}" for frame in reversed(frames)]
        getattr(self, kind)[f"{what} at {' from '.join(lines) or 'the test'}"] += 1

    def clear(self) -> None:
        for counts in (self.waits, self.to_host, self.to_device, self.async_copies, self.kernels):
            counts.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(self, func, args, kwargs or {})

    def __enter__(self) -> GhostGpu:
        self.stack = ExitStack()
        self.lifted = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)
        self.stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        for name, value in self._answers().items():
            self.stack.enter_context(patch.object(torch.cuda, name, value))
        self.stack.enter_context(patch.object(torch.Tensor, "pin_memory", pin))
        self.stack.enter_context(patch.object(torch.nn.functional, "scaled_dot_product_attention", attention))
        kinds = [torch.Tensor, torch.nn.Parameter, GhostTensor]  # otherwise each tensor would be a separate kernel
        self.stack.enter_context(patch.object(torch.utils._foreach_utils, "_foreach_supported_types", kinds))
        self.stack.enter_context(patch.object(torch, "inference_mode", torch.no_grad))  # rejects tensor subclasses
        _Current.modes.append(self)
        return super().__enter__()

    def _answers(self) -> dict[str, Any]:
        """Answers of `torch.cuda` for a GPU with 16 GB."""
        properties = {"name": "Ghost", "major": 8, "minor": 0, "total_memory": 2**34, "multi_processor_count": 1}
        return {
            "is_available": lambda: True,
            "_lazy_init": lambda: None,
            "is_initialized": lambda: True,
            "is_bf16_supported": lambda including_emulation=True: self.bf16 or including_emulation,
            "device_count": lambda: 2,
            "current_device": lambda: _Current.device,
            "set_device": self._set_device,
            "get_rng_state": lambda *_: torch.get_rng_state(),
            "set_rng_state": lambda state, *_: torch.set_rng_state(state),
            "synchronize": lambda *_: None,
            "max_memory_allocated": lambda *_: 0,
            "reset_peak_memory_stats": lambda *_: None,
            "manual_seed_all": lambda *_: None,
            "manual_seed": lambda *_: None,
            "_is_in_bad_fork": lambda: False,
            "get_device_properties": lambda *_: type("Properties", (), properties)(),
            "get_device_capability": lambda *_: (8, 0),
            "get_device_name": lambda *_: "Ghost",
            "is_current_stream_capturing": lambda: False,
            "device": nothing,
        }

    def _set_device(self, device: Any) -> None:
        _Current.device = device if isinstance(device, int) else torch.device(device).index or 0
        SHIM.ghost_set_device(_Current.device)
        self.chosen.append(_Current.device)

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        _Current.modes.remove(self)
        _Current.device = 0
        SHIM.ghost_set_device(0)
        self.stack.close()
        torch._C._set_only_lift_cpu_tensors(self.lifted)


def pin(tensor: torch.Tensor) -> torch.Tensor:
    """Copy to simulated pinned memory."""
    pinned = tensor.clone()
    pinned.ghost_pinned = True  # type: ignore[attr-defined]
    return pinned


@contextmanager
def nothing(*_: Any) -> Iterator[None]:
    yield
