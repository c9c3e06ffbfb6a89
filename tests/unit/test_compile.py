"""`train.compile`: the loss of a system is a single graph without graph breaks."""

from __future__ import annotations

import os
import shutil

import pytest
import torch

from support import make_batch, small

if shutil.which("gcc") is None and shutil.which("g++") is None:
    if os.environ.get("CI"):
        raise RuntimeError("torch.compile needs a C++ compiler, and CI must have one")
    pytest.skip("torch.compile needs a C++ compiler", allow_module_level=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("system", ["transformer", "msc", "dlcl", "surface-fusion"])
def test_the_loss_is_one_graph(system: str) -> None:
    """`fullgraph` raises on a graph break; gradients equal those of eager mode."""
    torch._dynamo.reset()
    batch = make_batch()
    plain, traced = small(system).train(), small(system).train()
    compiled = torch.compile(traced, fullgraph=True, dynamic=True, backend="eager")
    expected, found = plain(*batch, 0.1), compiled(*batch, 0.1)
    torch.testing.assert_close(found.total, expected.total, rtol=1e-4, atol=1e-4)
    expected.total.backward()
    found.total.backward()
    for (name, one), other in zip(traced.named_parameters(), plain.parameters(), strict=True):
        if other.grad is not None:
            torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")
