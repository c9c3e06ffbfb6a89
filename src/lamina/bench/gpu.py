"""GPU trials of `lamina doctor --gpu`: a few updates of three systems in each precision, compared with the CPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lamina.base.devices import Precision, autocast
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.systems.build import build
from lamina.training.casting import cast_weights_together
from lamina.translation.backends import SourceBatch
from lamina.translation.torch_backend import TorchBackend

STEPS, VOCABULARY, SENTENCES, LENGTH = 20, 2000, 32, 24
SYSTEMS = ("transformer", "msc", "surface-fusion")
# maximum relative difference of the final loss from the CPU's in fp32
TOLERANCE: dict[Precision, float] = {"fp32": 0.01, "bf16": 0.05, "fp16": 0.05}


@dataclass(frozen=True)
class Trial:
    """One system in one precision on the GPU."""

    system: str
    precision: Precision
    first_loss: float
    last_loss: float
    cpu_loss: float  # final loss on the CPU in fp32
    milliseconds: float  # per update
    gigabytes: float  # peak memory
    problem: str | None = None  # error message

    @property
    def verdict(self) -> str:
        """`ok` or the problem."""
        if self.problem:
            return self.problem
        deviation = abs(self.last_loss - self.cpu_loss) / self.cpu_loss
        if not deviation <= TOLERANCE[self.precision]:
            return f"the loss differs from the CPU's by {deviation:.0%}"
        return "ok" if self.last_loss < self.first_loss else "does not learn"


def try_gpu(device: torch.device, steps: int = STEPS) -> Iterator[Trial]:
    """Try every system in every precision that the device supports natively."""
    precisions: list[Precision] = ["fp32", "bf16", "fp16"]
    if not torch.cuda.is_bf16_supported(including_emulation=False):
        precisions.remove("bf16")
    for system in SYSTEMS:
        expected = train_briefly(system, torch.device("cpu"), "fp32", steps)[0]
        for precision in precisions:
            try:
                losses, seconds, memory = train_briefly(system, device, precision, steps)
                yield Trial(system, precision, losses[0], losses[-1], expected[-1], 1000 * seconds, memory / 1e9)
            except Exception as error:  # drivers raise anything; report it
                reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
                yield Trial(system, precision, 0.0, 0.0, expected[-1], 0.0, 0.0, reason)


def train_briefly(
    system: str, device: torch.device, precision: Precision, steps: int
) -> tuple[list[float], float, float]:
    """Train on one batch without dropout; return the losses, the median seconds per update and the peak memory."""
    torch.manual_seed(1)
    model = build(system, size="tiny", vocab_size=VOCABULARY, dropout=0.0).to(device).train()
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
        cast_weights_together(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16", init_scale=1024.0)
    losses, seconds = [], []
    source_BS, target_BT = random_batch()
    prefix_BT = torch.cat([torch.full((SENTENCES, 1), model.start_id), target_BT[:, :-1]], dim=1)
    batch = [each.to(device) for each in (source_BS, prefix_BT, target_BT)]
    for _ in range(steps):
        started = time.perf_counter()
        optimizer.zero_grad()
        with autocast(device, precision):
            loss = model(*batch, 0.1).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))  # synchronises, so that the timing is correct
        seconds.append(time.perf_counter() - started)
    search_briefly(model.eval(), precision)
    memory = float(torch.cuda.max_memory_allocated(device)) if on_gpu else 0.0
    return losses, sorted(seconds)[len(seconds) // 2], memory


def random_batch() -> tuple[Tensor, Tensor]:
    """Make sources and targets of various lengths, the same on every machine."""
    generator = torch.Generator().manual_seed(1)
    source_BS, target_BT = torch.randint(4, VOCABULARY, (2, SENTENCES, LENGTH), generator=generator)
    for number in range(SENTENCES):
        for tokens_T, end in ((source_BS[number], LENGTH - number % 7), (target_BT[number], LENGTH - number % 5)):
            tokens_T[end - 1], tokens_T[end:] = Seq2Seq.eos_id, Seq2Seq.pad_id
    return source_BS, target_BT


def search_briefly(model: Seq2Seq, precision: Precision) -> None:
    """Run beam search on two sentences; raise if it finds nothing."""
    backend = TorchBackend([model])
    backend.precision = precision
    settings = SearchSettings(beam=2, max_length=(0.0, 5))
    (found,) = backend.search([SourceBatch([[5, 6, Seq2Seq.eos_id], [7, Seq2Seq.eos_id]])], settings)
    if not all(found):
        raise ArithmeticError("beam search found nothing")
