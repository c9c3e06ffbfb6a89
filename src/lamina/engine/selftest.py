"""`python -m lamina.engine.selftest`: decode small models with the engine and with torch; exit with 0 if they agree.

`compilation` runs it in a child process, since an instruction that the CPU cannot execute kills the process.
"""

from __future__ import annotations

import sys
from multiprocessing import get_context

import torch

from lamina.engine.compilation import entry_point, make_engine
from lamina.engine.vectors import LANES
from lamina.recipe.decode import SearchSettings
from lamina.systems.build import build

TOLERANCE, INT8_TOLERANCE = 1e-3, 0.5  # of log p
SOURCES = [[5, 9, 17, 8, 6, 2], [12, 2], [7, 7, 21, 2]]


def worst_difference(system: str, int8: bool) -> float:
    """The largest difference between engine and torch in log p of the engine's hypotheses."""
    torch.manual_seed(1)
    sizes = {"d_model": 2 * LANES, "ffn_size": 40, "heads": 2, "encoder": {"layers": 2}, "decoder": {"layers": 2}}
    model = build(system, size="tiny", vocab_size=50, **sizes).eval()
    found = make_engine([model], int8).search(SOURCES, SearchSettings(max_length=(1.0, 4)))
    worst = 0.0
    for source, hypotheses in zip(SOURCES, found, strict=True):
        for each in hypotheses:
            prefix = torch.tensor([[model.start_id, *each.tokens[:-1]]])
            with torch.inference_mode():
                log_probs = model.log_probs(torch.tensor([source]), prefix)[0]
            expected = log_probs.gather(1, torch.tensor(each.tokens)[:, None]).sum()
            worst = max(worst, abs(each.log_prob - float(expected)))
        worst = worst if hypotheses else float("inf")
    return worst


def find_difference() -> str:
    """A description of the first disagreement between engine and torch; empty if there is none."""
    for system in ("transformer-post", "msc-surface"):
        for int8, tolerance in ((False, TOLERANCE), (True, INT8_TOLERANCE)):
            found = worst_difference(system, int8)
            if not found <= tolerance:
                return f"{system} in {8 if int8 else 32} bits: log p differs by {found:.3g}"
    return ""


def compile_in_parallel() -> None:
    """Compile the machine in a forked process, and meanwhile the search in this one; both write to the cache."""
    machine = get_context("fork").Process(target=entry_point, args=("execute",))
    machine.start()
    entry_point("encode")
    entry_point("decode")
    machine.join()


if __name__ == "__main__":
    compile_in_parallel()
    sys.exit(find_difference() or 0)  # text is printed, with exit code 1
