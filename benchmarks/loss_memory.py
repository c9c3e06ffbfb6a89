"""Peak memory of the loss and its backward pass, beyond the model and its gradients.

    python benchmarks/loss_memory.py [--tokens 4096] [--d-model 512] [--vocabulary 32000]

Each head is measured in its own process: peak RSS with the loss and its backward pass, minus the RSS once the softmax
matrix, its gradient, the features and their gradients have been allocated. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

HEADS = {
    "softmax": {"type": "softmax"},
    "surface hard": {"type": "surface"},
    "surface soft": {"type": "surface", "mode": "soft"},
    "pointer": {"type": "pointer"},
    "plain torch": None,
}


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def measure(head: str, tokens: int, d_model: int, vocabulary: int) -> float:
    import torch

    from lamina.model.states import DecoderStates, Targets
    from lamina.systems.build import build

    model = build(
        size="base",
        vocab_size=vocabulary,
        d_model=d_model,
        dropout=0.0,
        encoder={"layers": 1},
        decoder={"layers": 1},
        head=HEADS[head] or {"type": "softmax"},
    )
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    source_BS = torch.randint(4, vocabulary, (1, 32))
    target_BT = torch.randint(4, vocabulary, (1, tokens))
    features_BTD = torch.randn(1, tokens, d_model, requires_grad=True)
    features_BTD.grad = torch.zeros_like(features_BTD)
    with torch.no_grad():
        memory = model.head.project_source(model.encode(source_BS))
    states = DecoderStates((features_BTD,), features_BTD, features_BTD)
    before = resident_mb()
    if HEADS[head] is None:
        logits = torch.nn.functional.linear(features_BTD[0], model.head.weight_VD)
        torch.nn.functional.cross_entropy(logits, target_BT[0], label_smoothing=0.1).backward()
    else:
        model.head.loss(states, memory, Targets(target_BT, model.pad_id, 0.1)).mean().backward()
    return peak_mb() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--vocabulary", type=int, default=32000)
    parser.add_argument("--head", choices=HEADS, help="measure one head in this process")
    options = parser.parse_args()
    if options.head:
        print(measure(options.head, options.tokens, options.d_model, options.vocabulary))
        return
    sizes = ["--tokens", options.tokens, "--d-model", options.d_model, "--vocabulary", options.vocabulary]
    added = {
        head: round(float(subprocess.check_output([sys.executable, __file__, *map(str, sizes), "--head", head])))
        for head in HEADS
    }
    report = {"tokens": options.tokens, "d_model": options.d_model, "vocabulary": options.vocabulary}
    print(json.dumps({**report, "added_peak_mb": added}, indent=2))


if __name__ == "__main__":
    main()
