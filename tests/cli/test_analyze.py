"""`lamina analyze` on small runs: figures and their numbers, checked against independent computations."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, pstdev

import pytest
import torch
from sacrebleu.metrics.bleu import BLEU

import lamina
from lamina.analysis import gradients
from lamina.analysis.degradation import verdict
from lamina.analysis.difficulty import cut, difficulties
from lamina.analysis.finding import label_runs
from lamina.analysis.layers import record_gates
from lamina.figures.charts import Series
from lamina.model.layers.fusion import GatedFusion
from lamina.store.checkpoints import Checkpoints
from lamina.store.loading import load_run
from lamina.training.objective import encoder_gradient_norms
from support import Finished, make_batch, run_lamina, small

TrainedRun = Callable[[str], Path]


@pytest.fixture(scope="session")
def trained(data: Path) -> TrainedRun:
    """Train a short run of a system, cached per module."""

    def train(system: str) -> Path:
        run = data / f"run-{system}"
        if not run.is_dir():
            result = run_lamina(
                *("train", data / "recipe.yaml", "--data", data / "data", "--out", run),
                *(
                    "--set",
                    "train.gradients_every=2",
                    "--set",
                    f"system={system}",
                    "--set",
                    "train.max_steps=8",
                    "--set",
                    "train.warmup=4",
                ),
            )
            assert result.returncode == 0, result.stderr
        return run

    return train


@pytest.fixture(scope="session")
def test_set(data: Path) -> tuple[Path, Path]:
    """A few validation pairs as a test set."""
    for language in ("en", "de"):
        lines = (data / f"valid.{language}").read_text().splitlines()[:9]
        (data / f"few.{language}").write_text("".join(f"{line}\n" for line in lines))
    return data / "few.en", data / "few.de"


def analyze(what: str, *arguments: object) -> Finished:
    return run_lamina("analyze", what, *map(str, arguments))


def written(folder: Path, name: str) -> dict[str, object]:
    """Return the JSON data; check that the page, the table and the pictures exist."""
    page = (folder / f"{name}.html").read_text()
    assert page.count("<svg") == len(list(folder.glob(f"{name}-*.svg"))) > 0
    assert len(list(csv.reader((folder / f"{name}.csv").read_text().splitlines()))) > 1
    content: dict[str, object] = json.loads((folder / f"{name}.json").read_text())
    return content


def test_gradients_match_the_records(trained: TrainedRun, tmp_path: Path) -> None:
    runs = [trained("transformer"), trained("msc")]
    result = analyze("gradients", *runs, "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    assert re.sub(r"\d\.\d", "0", result.stderr) == (
        "run-transformer: final gradients differ by up to 0× between layers\n"
        "run-msc: final gradients differ by up to 0× between layers\n"
        f"Page: {tmp_path / 'gradients.html'}\n"
    )
    found = written(tmp_path, "gradients")
    for run in runs:
        records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        expected = [{"step": each["step"], "norms": each["encoder"]} for each in records if each["kind"] == "gradients"]
        assert found[run.name] == expected
        assert [each["step"] for each in expected] == [2, 4, 6, 8]


@pytest.mark.parametrize(
    ("last", "times"),
    [
        ([0.1, 0.3], "3.0"),
        ([0.1, 1.8], "18"),
        ([4.0e-06, 0.1348], "3·10⁴"),
        ([2e-11, 0.2], "1·10¹⁰"),
        ([0.0, 0.2], "∞"),
    ],
    ids=["3", "18", "33700", "10^10", "infinite"],
)
def test_the_spread_of_gradients_is_a_readable_number(last: list[float], times: str) -> None:
    assert gradients.verdict(last) == f"final gradients differ by up to {times}× between layers"


def test_frozen_layers_keep_their_numbers(tmp_path: Path) -> None:
    model = small("transformer").train()
    model.encoder.layers[0].requires_grad_(False)
    batch = make_batch()
    model(*batch, 0.1).total.backward()
    norms = encoder_gradient_norms(model).tolist()
    assert [norm > 0 for norm in norms] == [False, *[True] * (len(norms) - 1)]
    record = {"kind": "gradients", "step": 10, "encoder": norms}
    (tmp_path / "metrics.jsonl").write_text(f"{json.dumps(record)}\n")
    found = gradients.analyze_gradients([tmp_path])
    assert [row[1] for row in found.rows] == list(range(2, len(norms) + 1))
    assert found.pictures[0].caption.endswith("recorded up to update 10; frozen layers (not shown): 1.")


def test_difficulty_by_hand() -> None:
    assert difficulties([[1.0, 4.0], [3.0, 4.0]]) == [2.0 + 1.0, 4.0]
    assert cut([0.5, 9.0, 0.1, 3.0, 2.0]) == [[2, 0], [4], [3], [1]]


def test_difficulty_of_a_run(straight: Path, test_set: tuple[Path, Path], tmp_path: Path) -> None:
    result = analyze("difficulty", straight, "--checkpoints", 2, "--test", *test_set, "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    found = written(tmp_path, "difficulty")
    steps = Checkpoints(straight / "checkpoints").steps()[-2:]
    assert found["checkpoints"] == steps
    rows = []
    for step in steps:
        scored = run_lamina("rescore", straight, "--checkpoint", step, "--source", test_set[0], "--target", test_set[1])
        rows.append([-json.loads(line)["log_prob"] for line in scored.stdout.splitlines()])
    by_hand = [fmean(each) + pstdev(each) for each in zip(*rows, strict=True)]
    assert found["difficulty"] == pytest.approx(by_hand, abs=1e-3)
    parts = [(tmp_path / "parts" / f"test.src.part{part}").read_text().splitlines() for part in range(4)]
    assert [len(part) for part in parts] == [3, 2, 2, 2]
    assert sorted(line for part in parts for line in part) == sorted(test_set[0].read_text().splitlines())


@pytest.mark.parametrize(
    ("system", "maps"),
    [
        ("transformer", ["layer2", "layer2-head1", "layer2-head2", "layer1"]),
        ("msc", ["layer2-states", "layer2-context", "layer1-states", "layer1-context"]),
        ("surface-fusion", ["layer2", "layer1", "surface"]),
    ],
)
def test_attention(system: str, maps: list[str], trained: TrainedRun, tmp_path: Path) -> None:
    run = trained(system)
    result = analyze(
        "attention", run, "--source", "The dog sleeps.", "--target", "Der Hund schläft.", "--out", tmp_path
    )
    assert result.returncode == 0, result.stderr
    found = written(tmp_path, "attention")
    weights = {each["map"]: torch.tensor(each["weights"]) for each in found["maps"]}  # type: ignore[attr-defined]
    assert set(maps) <= set(weights)
    for each in weights.values():
        assert each.shape == (len(found["target"]), len(found["source"]))  # type: ignore[arg-type]
        torch.testing.assert_close(each.sum(dim=1), torch.ones(len(each)))
    if "layer2-head1" in maps:
        torch.testing.assert_close((weights["layer2-head1"] + weights["layer2-head2"]) / 2, weights["layer2"])


def test_attention_to_the_models_own_translation(trained: TrainedRun, tmp_path: Path) -> None:
    run = trained("transformer")
    assert analyze("attention", run, "--source", "The dog sleeps.", "--out", tmp_path).returncode == 0
    own = lamina.load(run).translate(["The dog sleeps."])[0]
    assert json.loads((tmp_path / "attention.json").read_text())["target"] == own.tokens


@pytest.mark.parametrize("system", ["transparent", "fine-grained"])
def test_mixing_weights_are_the_softmax(system: str, trained: TrainedRun, tmp_path: Path) -> None:
    run = trained(system)
    assert analyze("layers", run, "--out", tmp_path).returncode == 0
    weight = load_run(run).model.bridge.weight.detach().softmax(dim=1)
    by_hand = weight.mean(dim=2) if weight.dim() == 3 else weight
    found = {(row["reader"], row["layer"]): row["weight"] for row in written(tmp_path, "layers")["weights"]}  # type: ignore[attr-defined]
    assert found["2", "embedding"] == pytest.approx(by_hand[1, 0].item())
    assert found["1", "2"] == pytest.approx(by_hand[0, 2].item())
    assert len(found) == by_hand.numel()


def test_dlcl_weights(trained: TrainedRun, tmp_path: Path) -> None:
    run = trained("dlcl")
    assert analyze("layers", run, "--out", tmp_path).returncode == 0
    rows = written(tmp_path, "layers")["weights"]
    wiring = load_run(run).model.encoder.wiring
    found = [row["weight"] for row in rows if row["what"] == "dlcl encoder" and row["reader"] == "2"]  # type: ignore[attr-defined]
    assert found == pytest.approx(wiring.rows[1].tolist())


def test_gates_of_msc(trained: TrainedRun, test_set: tuple[Path, Path], tmp_path: Path) -> None:
    run = trained("msc")
    assert analyze("layers", run, "--out", tmp_path).stderr == (
        f"lamina: {run}: its gates depend on the input; give a test set.\n"
    )
    result = analyze("layers", run, "--test", *test_set, "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    rows = written(tmp_path, "layers")["weights"]
    assert {(row["what"], row["reader"]) for row in rows} == {  # type: ignore[attr-defined]
        (f"{side} gate", layer) for side in ("encoder", "decoder") for layer in ("1", "2")
    }
    assert all(0 < row["weight"] < 1 for row in rows)  # type: ignore[attr-defined]


def test_a_gate_by_hand(trained: TrainedRun) -> None:
    model = load_run(trained("msc")).model.eval()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, GatedFusion):
                for parameter in module.parameters():
                    parameter.fill_(0.3 if parameter.dim() == 1 else 0.0)
    with record_gates(model) as seen, torch.no_grad():
        model.log_probs(torch.tensor([[5, 6, 2]]), torch.tensor([[0, 7]]))
    for side in ("encoder", "decoder"):
        for ((total, count),) in seen[side]:
            assert total / count == pytest.approx(1 / (1 + math.exp(-0.3)))


def test_masking_equals_zeroing_the_weight(trained: TrainedRun, test_set: tuple[Path, Path], tmp_path: Path) -> None:
    run = trained("transparent")
    result = analyze("masking", run, "--test", *test_set, "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    layers = written(tmp_path, "masking")["layers"]
    assert [row["masked layer"] for row in layers] == ["none", "embedding", "1", "2"]  # type: ignore[attr-defined]
    loaded = load_run(run)
    with torch.no_grad():
        alpha = loaded.model.bridge.weight.softmax(dim=1)
        alpha[:, 2] = 0.0
    loaded.model.bridge.weights = lambda: alpha
    translator = lamina.translation.Translator([loaded.model.eval()], loaded.text)
    outputs = [each.text for each in translator.translate(test_set[0].read_text().splitlines())]
    by_hand = BLEU().corpus_score(outputs, [test_set[1].read_text().splitlines()]).score
    assert layers[3]["BLEU"] == pytest.approx(by_hand)  # type: ignore[index]
    assert layers[3]["words"] == sum(len(output.split()) for output in outputs)  # type: ignore[index]


def test_embeddings_by_hand(trained: TrainedRun, tmp_path: Path) -> None:
    run = trained("transformer")
    loaded = load_run(run)
    symbols = loaded.text.source.vocabulary.symbols
    whole = [symbol.removeprefix("▁") for symbol in symbols[4:] if symbol.startswith("▁") and symbol[1:].isalpha()]
    words = [word for word in whole if len(loaded.text.source.encode([word])[0]) == 2][:4]
    assert len(words) == 4
    (tmp_path / "a").write_text("\n".join(words) + "\n")
    (tmp_path / "b").write_text("\n".join(reversed(words)) + "\n")
    arguments = ["--pairs", tmp_path / "a", tmp_path / "b", "--dictionary", "--out", tmp_path]
    assert analyze("embeddings", run, *arguments).returncode == 0
    found = written(tmp_path, "embeddings")
    weight = loaded.model.target_embedding.tokens.weight.detach()
    ids = [loaded.text.source.encode([word])[0][0] for word in words]
    by_hand = torch.cosine_similarity(weight[ids], weight[ids[::-1]]).mean().item()
    assert found["cosine"][0]["aligned"] == pytest.approx(by_hand, abs=1e-5)  # type: ignore[index]
    values = torch.linalg.svdvals(weight)
    assert found["spectrum"][run.name] == pytest.approx((values / values[0]).tolist(), abs=1e-5)  # type: ignore[index]


def test_embeddings_of_aligned_text(trained: TrainedRun, data: Path, tmp_path: Path) -> None:
    runs = [trained("transformer"), trained("surface-fusion")]
    result = analyze("embeddings", *runs, "--pairs", data / "valid.en", data / "valid.de", "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    cosines = written(tmp_path, "embeddings")["cosine"]
    assert [row["run"] for row in cosines] == [run.name for run in runs]  # type: ignore[attr-defined]
    assert all(row["pairs"] >= 2 for row in cosines)  # type: ignore[attr-defined]


def test_degradation_scores_training_and_validation_pairs(trained: TrainedRun, data: Path, tmp_path: Path) -> None:
    runs = [trained("transformer"), trained("msc")]
    result = analyze("degradation", *runs, "--data", data / "data", "--sentences", 6, "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    rows = written(tmp_path, "degradation")["runs"]
    assert [(row["run"], row["encoder"], row["layers"], row["pairs"]) for row in rows] == [  # type: ignore[attr-defined]
        (run.name, encoder, 2, pairs)
        for run, encoder in zip(runs, ("plain (pre-norm)", "msc (pre-norm)"), strict=True)
        for pairs in ("train", "valid")
    ]
    assert all(0 < row["loss"] < 10 for row in rows)  # type: ignore[attr-defined]
    drawn = {path.stem for path in tmp_path.glob("degradation-*.svg")}
    assert drawn == {f"degradation-{what}-{pairs}" for what in ("bleu", "loss") for pairs in ("training", "validation")}
    best = min((row for row in rows if row["pairs"] == "valid"), key=lambda row: row["loss"])["run"]  # type: ignore[attr-defined]
    title = f'aria-label="loss on validation pairs, 2 encoder layers: {best} is best"'
    assert title in (tmp_path / "degradation-loss-validation.svg").read_text()


@pytest.mark.parametrize(("deep", "change"), [(12.34, "+11.1"), (1.198, "-0.032"), (1.23, "+0")])
def test_a_small_change_by_depth_keeps_its_digits(deep: float, change: str) -> None:
    title = verdict([Series("msc", [(4.0, 1.23), (24.0, deep)])])
    assert title == f": msc changes by {change} from 4 to 24 layers"


def test_report_has_all_applicable_sections(trained: TrainedRun, test_set: tuple[Path, Path], tmp_path: Path) -> None:
    runs = [trained("transparent"), trained("msc")]
    page = tmp_path / "report.html"
    result = analyze("report", *runs, "--test", *test_set, "--out", page)
    assert (result.returncode, result.stdout) == (0, f"{page}\n"), result.stderr
    text = page.read_text()
    headings = ("Scores", "Sentences", "Training", "Gradient norm", "Layer weights", "masked", "Attention", "Recipe of")
    assert [heading for heading in headings if heading not in text] == []
    assert "has no layer weights to set to 0" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["masking", "{transformer}", "--test", "{en}", "{de}"],
            "{transformer}: its bridge `top` has no layer weights to set to 0; train a system with bridge "
            "`transparent` or `fine_grained`.",
        ),
        (
            ["layers", "{transformer}"],
            "{transformer}: `stack` × `top` × `softmax` has no layer weights or gates; train `transparent`, "
            "`fine-grained`, `dlcl`, `msc`, or `surface-fusion` with a learned gate.",
        ),
        (
            ["difficulty", "{transformer}", "--checkpoints", "50", "--test", "{en}", "{de}"],
            "{transformer}: has 2 checkpoints, but needs 50; train it with a smaller `train.save_every` and "
            "`train.keep_last=50` or more, or use fewer checkpoints.",
        ),
        (["gradients", "{model}"], "{model}/metrics.jsonl: not found; {model} is not a run of `lamina train`."),
        (["attention", "{transformer}", "--source", " "], "The source is blank; give a sentence."),
    ],
)
def test_missing_requirements_are_reported(
    arguments: list[str], message: str, trained: TrainedRun, test_set: tuple[Path, Path], tmp_path: Path
) -> None:
    run = trained("transformer")
    names = {"transformer": run, "model": run / "model", "en": test_set[0], "de": test_set[1]}
    result = analyze(*[each.format(**names) for each in arguments], "--out", tmp_path)
    assert result.returncode in (2, 3)
    assert result.stderr == f"lamina: {message.format(**names)}\n"


def test_a_run_without_gradient_records(trained: TrainedRun, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"kind": "train", "step": 5, "loss": 1.0}\n{"kind": "tr')
    assert analyze("gradients", tmp_path).stderr == (
        f"lamina: {tmp_path}: has no gradient records; train it with a `train.gradients_every` (100 by default) "
        "below the number of steps.\n"
    )


def test_run_labels_are_distinct() -> None:
    assert label_runs([Path("/a/x"), Path("/a/y")]) == ["x", "y"]
    assert label_runs([Path("/a/x"), Path("/b/x")]) == ["a/x", "b/x"]
