"""Mistakes in Python calls are reported as the command line reports them, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import lamina

PAIRS = [(f"a dog {n} runs", f"ein Hund {n} rennt") for n in range(40)]
TEST = ("test.en", "test.de")


def prepare(**options: Any) -> lamina.PreparedData:
    return lamina.prepare(options.pop("train", PAIRS), PAIRS[:2], options.pop("out", "made"), progress=False, **options)


def build() -> Any:
    return lamina.build("transformer", size="tiny", vocab_size=50)


class Named(lamina.Callback):
    """Does nothing."""


MISTAKES: list[tuple[Callable[[], Any], str]] = [
    (lambda: prepare(subwords="spm"), "subwords must be one of sentencepiece, bpe, none, but is 'spm' instead."),
    (lambda: prepare(line_breaks="keep"), "line_breaks must be one of space, symbol, but is 'keep' instead."),
    (lambda: prepare(langs="en"), "langs must be two names, such as ('en', 'de'), but is 'en' instead."),
    (lambda: prepare(fields="en"), "fields must be two names, such as ('en', 'de'), but is 'en' instead."),
    (lambda: prepare(vocab_size="700"), "vocab_size must be a whole number, at least 1, but is '700' instead."),
    (lambda: prepare(vocab_size=-5), "vocab_size must be a whole number, at least 1, but is -5 instead."),
    (lambda: prepare(workers=0), "workers must be a whole number, at least 1, but is 0 instead."),
    (
        lambda: prepare(vocab_size=6),
        "`vocab_size` must be at least 283, to cover the characters of the text, 256 bytes and the special symbols",
    ),
    (
        lambda: prepare(lowercase=True, subwords="none"),
        "`lowercase` needs `subwords='sentencepiece'`, not `subwords='no",
    ),
    (lambda: lamina.average("runs/first"), "Give either `last` or `steps`."),
    (lambda: lamina.average("runs/first", last=9), "`last` must be at most"),
    (lambda: lamina.average("runs/first", steps=["8"]), "steps must be a list of whole numbers"),  # type: ignore[list-item]
    (lambda: lamina.average("runs/first", steps=[]), "`steps` must name at least one checkpoint."),
    (
        lambda: lamina.export("runs/first", "onxx", "made"),
        "to must be one of ctranslate2, onnx, huggingface, argos, but",
    ),  # type: ignore[arg-type]
    (lambda: lamina.export("runs/first", "onnx", "data"), "data"),
    (lambda: lamina.rescore("runs/first", ["a"]), "pairs, pair 1: must be"),
    (lambda: lamina.rescore("runs/first", [("a", "b " * 3000)]), "pair 1: its target has"),
    (lambda: prepare(max_ratio="9"), "max_ratio must be a number, but is '9' instead."),
    (lambda: prepare(train=5), "train: must be files or pairs, but is 5 instead."),
    (
        lambda: prepare(train=(["a", "b", "c", "d"], ["e", "f", "g", "h"])),
        "train, pair 1: must be two texts, source and target, but is (str, str, str, …) instead. "
        "For two parallel lists, pass zip(sources, targets).",
    ),
    (
        lambda: prepare(train=[{"translation": {"en": "a", "de": "b"}}], langs=("en", "fr")),
        "train, pair 1: has the columns `en`, `de`. `en` and `fr` are expected. Name the two columns with fields=",
    ),
    (
        lambda: lamina.train("transformer", "data", "made", model="tiny"),  # type: ignore[arg-type]
        "model must be a mapping, such as {'size': 'tiny'}, but is 'tiny' instead.",
    ),
    (
        lambda: lamina.train(build(), "data", "made"),
        "recipe must be the name of a system or recipe, a file or a mapping, but is Seq2Seq instead.",
    ),
    (
        lambda: lamina.train("transformer", PAIRS, "made"),  # type: ignore[arg-type]
        "data must be the result of lamina.prepare, or its folder, but is list instead.",
    ),
    (
        lambda: lamina.train("transformer", "data", "data"),
        "data: contains prepared data. Choose another folder for the",
    ),
    (lambda: lamina.train("transformer", "data", "made", threads=0), "threads must be a whole number, at least 1"),
    (
        lambda: lamina.train("transformer", "data", "made", device="gpu"),  # type: ignore[arg-type]
        "device must be one of auto, cpu, cuda, but is 'gpu' instead. Did you mean `cuda`?",
    ),
    (
        lambda: lamina.train("transformer", "data", "made", callbacks=[Named]),  # type: ignore[list-item]
        "pass an instance, Named().",
    ),
    (
        lambda: lamina.train("transformer", "data", "made", learning_rate=1.0),  # type: ignore[call-arg]
        "train.learning_rate: not an option. Did you mean `lr`?",
    ),
    (
        lambda: lamina.load(["runs/first", "runs/second"]),  # type: ignore[arg-type]
        "run must be a path; for an ensemble, give several arguments, but is ['runs/first', 'runs/second'] instead.",
    ),
    (
        lambda: lamina.evaluate(lamina.load("runs/first"), TEST, checkpoint=8, int8=True),
        "Pass checkpoint, int8 to lamina.load; a model that is already loaded keeps its own.",
    ),
    (lambda: lamina.evaluate("runs/first", TEST, device="gpu"), "device must be one of auto, cpu, cuda, but is 'gpu'"),  # type: ignore[arg-type]
    (lambda: lamina.rescore("runs/first", TEST, threads=0), "threads must be a whole number, at least 1, but is 0"),
    (lambda: lamina.evaluate("runs/first", PAIRS, metrics="m2"), "m2 needs files: an .m2 file, or (source, .m2 file)."),
    (lambda: lamina.SamplingSettings(top_k=5.5), "top_k must be a whole number, at least 1, but is 5.5 instead."),  # type: ignore[arg-type]
    (lambda: lamina.SamplingSettings(temperature="1"), "temperature must be between 0 and 100, but is '1' instead."),  # type: ignore[arg-type]
    (
        lambda: lamina.load("runs/first").translate("", attention=True).plot_attention(),
        "No attention was recorded: call translate(…, attention=True). Alternatives and blank lines have none.",
    ),
    (lambda: lamina.evaluate("runs/first", TEST, metrics=None), "Metrics must be names: bleu, chrf, ter,"),  # type: ignore[arg-type]
    (lambda: lamina.score(["a"], None), "references must be texts, or files, but is None instead."),  # type: ignore[arg-type]
    (lambda: lamina.score(["a"], [1]), "references must be texts, or files, but is [1] instead."),  # type: ignore[list-item]
    (
        lambda: lamina.score(["a"], ["a"], language=5),  # type: ignore[arg-type]
        "language must be the code of a language, such as 'en', but is 5 instead.",
    ),
    (
        lambda: lamina.compare(["runs/first", "runs/second"], TEST, seed=-1),
        "seed must be a whole number, at least 0, but is -1 instead.",
    ),
    (lambda: prepare(out=None), "out must be the path of a new folder, but is None instead."),
    (
        lambda: lamina.train("transformer", "data", 5),  # type: ignore[arg-type]
        "out must be the path of a folder, but is 5 instead.",
    ),
    (
        lambda: lamina.save(build(), "data", None),  # type: ignore[arg-type]
        "out must be the path of a new folder, but is None instead.",
    ),
    (
        lambda: list(lamina.load("runs/first").stream(["a"], window=0)),
        "window must be a whole number, at least 1, but is 0 instead.",
    ),
    (
        lambda: lamina.load("runs/first").translate("a", nbest="3"),  # type: ignore[call-overload]
        "nbest must be a whole number, at least 1, but is '3' instead.",
    ),
    (lambda: list(lamina.load("runs/first").stream("A dog.")), "One text must be given as [text]."),
    (
        lambda: lamina.load("runs/first").translate("a", max_length=(1,)),  # type: ignore[call-overload]
        "max_length: must be a list of two numbers, such as [2, 20] (maximum tokens before eos: A × (source tokens "
        "incl. eos) + B).",
    ),
    (
        lambda: build()(torch.tensor([[4, 2]]), torch.tensor([[0, 4]]), torch.tensor([[4, 2]]), smoothing=2),
        "smoothing must be at least 0 and below 1, but is 2 instead.",
    ),
    (
        lambda: lamina.evaluate(build(), TEST),
        "A run must be a path or the result of lamina.load, but is a Seq2Seq instead.",
    ),
    (lambda: lamina.evaluate("runs/first", "runs"), "runs: is a folder; give a file of pairs, two parallel files"),
    (
        lambda: lamina.evaluate("runs/first", TEST, references=[["a", "b"]]),  # type: ignore[list-item]
        "references must be files, but one is a list instead.",
    ),
    (lambda: lamina.compare("runs/first", TEST), "Only runs/first was given. Give the baseline first"),
    (
        lambda: lamina.compare(["runs/first"], TEST, baselines="copie"),
        "Unknown baseline `copie`: use `copy` or `lead-K`, such as `lead-3`.",
    ),
    (
        lambda: lamina.compare(["runs/first", "runs/second"], TEST, significance="bootstap"),  # type: ignore[arg-type]
        "significance must be one of bootstrap, randomisation, both, but is 'bootstap' instead. Did you mean "
        "`bootstrap`?",
    ),
    (lambda: lamina.compare(["runs/first", "runs/second"], TEST, samples=0), "samples must be a whole number, at leas"),
    (lambda: lamina.load("runs/first").translate(3), "Give a text, or several texts; 3 is neither."),  # type: ignore[call-overload]
    (
        lambda: lamina.load("runs/first").translate([3]),  # type: ignore[list-item]
        "Every line must be a text, but one is 3 instead.",
    ),
    (lambda: lamina.load("runs/first").encode("A dog."), "One text must be given as [text]."),
    (
        lambda: lamina.load("runs/first").translate("a", temperature=0.5),  # type: ignore[call-overload]
        "temperature: belongs to sampling: sampling=lamina.SamplingSettings(temperature=…).",
    ),
    (lambda: lamina.score("Ein Hund", "Ein Hund"), "Ein Hund: not found. One text must be given as [text]."),
    (
        lambda: lamina.train("transformer", "data", "runs/new", modle={}),  # type: ignore[call-arg]
        "modle: not an argument. Did you mean `model`?",
    ),
    (
        lambda: lamina.train("transformer", "data", "runs/new", dropout=0.1),  # type: ignore[call-arg]
        "argument train.dropout: not an option. Did you mean `model.dropout`?",
    ),
    (
        lambda: lamina.evaluate("runs/first", TEST, metric="bleu"),  # type: ignore[call-arg]
        "metric: not an argument. Did you mean `metrics`?",
    ),
    (
        lambda: lamina.compare(["runs/first", "runs/second"], TEST, metric="bleu"),  # type: ignore[call-arg]
        "metric: not an argument. Did you mean `metrics`?",
    ),
    (
        lambda: lamina.rescore("runs/first", TEST, beam=3),  # type: ignore[call-arg]
        "beam: not an option of lamina.load.",
    ),
    (
        lambda: lamina.build("transformer", size="tiny", vocab_size=50, layers=6, num_heads=2),
        "layers: not an option. Did you mean `encoder.layers` or `decoder.layers`?\nnum_heads: not an option. Did you "
        "mean `heads`?",
    ),
    (
        lambda: list(lamina.load("runs/first").stream(["a"], {"beam": 2})),  # type: ignore[arg-type]
        "settings must be SearchSettings, but is {'beam': 2} instead; give options by name.",
    ),
    (
        lambda: lamina.load("runs/first").translate("a", nbest=0),
        "nbest must be a whole number, at least 1, but is 0 inst",
    ),
    (
        lambda: lamina.load("runs/first").translate("a", sampling={"seed": 1}),  # type: ignore[call-overload]
        "sampling must be lamina.SamplingSettings, but is {'seed': 1} instead.",
    ),
    (lambda: lamina.score("test.de", "test.de", source=["a"]), "source must be a file if the output is a file, but is"),
    (
        lambda: lamina.score(["a"], ["a", "b"]),
        "references must be 1 text, one per output, or several lists of as many; given: 2.",
    ),
    (
        lambda: lamina.score(["a", "b", "c"], [["a"], ["b"], ["c"]]),
        "references must be 3 texts, one per output, or several lists of as many; given: 3 lists of 1. If they are "
        "grouped by output, pass list(zip(*references)).",
    ),
    (lambda: lamina.score(["a b c"], "test.de"), "output must be a file, because the reference is one, but is 'a lis"),
    (lambda: lamina.score(["a", None], ["a", "b"]), "output must be texts, but is None instead."),  # type: ignore[list-item]
    (
        lambda: lamina.evaluate("runs/first", lamina.PreparedData("data")),
        "data: is prepared data, which has no text",
    ),
    (
        lambda: lamina.load("runs/first").translate("a", max_length=20),  # type: ignore[call-overload]
        "max_length: must be a list of two numbers, such as [2, 20] (maximum tokens before eos: A × (source tokens "
        "incl. eos) + B), but is 20 instead.",
    ),
    (
        lambda: lamina.train("transformer", "data", "runs/first"),
        "runs/first: cannot be resumed with a different system: it was 'surface-fusion' and is now 'transformer'.",
    ),
    (
        lambda: lamina.compare({"a": "runs/first"}, TEST),  # type: ignore[arg-type]
        "runs must be a list of paths or results of lamina.load, but is {'a': 'runs/first'} instead.",
    ),
    (
        lambda: lamina.evaluate("runs/first", ("test.de", "test.en")),
        "test set: source and target are swapped: test.de test.en, but the direction is en → de.",
    ),
    (lambda: lamina.load("me/first"), "me/first: not found. A model on the Hugging Face Hub is hf:me/first."),
    (
        lambda: lamina.load("runs/first").translate("a", max_new_tokens=4),  # type: ignore[call-overload]
        "max_new_tokens: not an option. Did you mean `max_length`?",
    ),
    (
        lambda: lamina.train("transformer", "data", save_steps=5),
        "train.save_steps: not an option. Did you mean `save_e",
    ),
    (lambda: lamina.train("transformer", "data", num_train_epochs=5), "not an option. Did you mean `max_steps`?"),
    (
        lambda: lamina.train({"train": {"max_steps": 500}}, "data", "made"),
        "recipe: train.warmup: must be less than max_steps 500, but is 4000 by default.",
    ),
    (
        lambda: lamina.train({"system": "transfomer", "model": {"droput": 0.1}}, "data", "made"),
        "recipe: system: `transfomer` is not a system. Did you mean `transformer`? `lamina systems` lists all systems."
        "\nrecipe: model.droput: not an option. Did you mean `dropout`?",
    ),
    (
        lambda: lamina.build("transformer", vocab_size=50, bridge={"type": "mine"}),
        "but is `mine` instead. To use a type of your own, register it first (see `Add a bridge` in the documentat",
    ),
    (lambda: lamina.analyze.gradients([]), "No run was given."),
    (lambda: lamina.analyze.gradients(3), "run must be the path of a run, or a Run, but is 3 instead."),  # type: ignore[arg-type]
    (lambda: lamina.analyze.difficulty("runs/first", TEST, checkpoints=0), "checkpoints must be a whole number"),
    (
        lambda: lamina.analyze.degradation("runs/first", TEST),  # type: ignore[arg-type]
        "data must be the data folder that the runs were trained on, but is ('test.en', 'test.de') instead.",
    ),
    (lambda: lamina.analyze.attention("runs/first", ["A dog."]), "source must be one sentence"),  # type: ignore[arg-type]
    (lambda: lamina.analyze.report("runs/first", out="data"), "data: is a folder; give the name of a file"),
    (lambda: lamina.analyze.gradients("runs/first").write("test.en"), "test.en: is a file; choose a folder."),
    (lambda: lamina.Run("runs/first").plot().save("x.png"), "x.png: figures are SVG; choose a name that ends with .sv"),
    (lambda: lamina.save("data", build(), "made"), "model must be one of Lamina's, but is a str instead."),  # type: ignore[arg-type]
    (
        lambda: lamina.save(nn.DataParallel(build()), "data", "made"),  # type: ignore[arg-type]
        "model must be one of Lamina's, but is a DataParallel instead. Pass its `module`.",
    ),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES, ids=[message[:40] for _, message in MISTAKES])
def test_a_mistake_is_explained(
    call: Callable[[], Any], message: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace)
    with pytest.raises(lamina.LaminaError) as raised:
        call()
    assert message in str(raised.value)
    assert not Path("made").exists()


def test_a_method_that_is_no_event_is_rejected() -> None:
    with pytest.raises(lamina.LaminaError, match="the events are on_step, on_validation, on_save"):
        type("Watch", (lamina.Callback,), {"on_batch": print})


@pytest.mark.parametrize("kind", ["folder", "run", "data", "file", "model and more", "current"])
def test_saving_replaces_only_model_folders(
    kind: str, workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = lamina.PreparedData(workplace / "data")
    model = lamina.build("transformer", size="tiny", vocab_size=len(data.text.source.vocabulary))
    out = Path("." if kind == "current" else "out")
    if kind == "file":
        out.write_text("a thesis")
    elif kind == "model and more":
        lamina.save(model, data, out)
        lamina.save(model, data, out)  # a model folder is replaced
    elif kind in ("run", "data"):
        out.symlink_to(workplace / {"run": "runs/first", "data": "data"}[kind])
    if kind in ("folder", "model and more"):
        out.mkdir(exist_ok=True)
        (out / "thesis.txt").write_text("a thesis")
    before = sorted(path.name for path in out.rglob("*"))
    with pytest.raises(lamina.LaminaError, match=r"Choose another folder|choose a new folder"):
        lamina.save(model, data, out)
    assert sorted(path.name for path in out.rglob("*")) == before
    assert out.exists()


def test_languages_select_the_columns_and_the_first_record_fixes_them(tmp_path: Path) -> None:
    records = [{"translation": {"en": source, "de": target}} for source, target in PAIRS]
    turned = prepare(train=records, out=tmp_path / "turned", langs=("de", "en"))
    straight = prepare(train=records, out=tmp_path / "straight")
    assert "de → en" in repr(turned)
    (german, _), (english, _) = turned.split("train")[0], straight.split("train")[0]
    assert turned.text.source.decode(german.tolist()).startswith("ein Hund")
    assert straight.text.source.decode(english.tolist()).startswith("a dog")
    mixed = [{"en": s, "de": t} if n % 2 else {"de": t, "en": s} for n, (s, t) in enumerate(PAIRS)]
    data = prepare(train=mixed, out=tmp_path / "mixed", langs=("de", "en"))
    firsts = {data.text.source.decode(data.split("train")[n][0].tolist())[:8] for n in range(40)}
    assert firsts == {"ein Hund"}


def test_texts_and_files_have_the_same_scores(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    lines = Path("test.de").read_text(encoding="utf-8").splitlines()
    output = [f"{line} ja" for line in lines]
    Path("output.de").write_text("".join(f"{line}\n" for line in output), encoding="utf-8")
    of_files = lamina.score("output.de", ["test.de", "test.de"], metrics="bleu,ter")
    of_texts = lamina.score(iter(output), [lines, lines], metrics=["bleu", "ter"], language="de")
    assert 0 < of_files["bleu"].score < 100
    translations = lamina.load("runs/first").translate(lines)
    assert (
        lamina.score(translations, lines)["chrf"].score
        == lamina.evaluate("runs/first", ("test.de", "test.de"))["chrf"].score
    )
    assert str(of_files) == str(of_texts)


def test_rescoring_sums_the_log_probabilities_of_a_translation(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace)
    translator = lamina.load("runs/first", device="cpu")
    (found,) = lamina.rescore(translator, [("A dog.", "Ein Hund.")], lenpen=0.5)
    (source,), _ = translator.encode(["A dog."])
    (target,) = translator.text.target.encode(["Ein Hund."])
    prefix = [translator.models[0].start_id, *target[:-1]]
    with torch.inference_mode():
        log_probs = translator.models[0].log_probs(torch.tensor([source]), torch.tensor([prefix]))[0]
    expected = sum(float(row[token]) for row, token in zip(log_probs, target, strict=True))
    assert found.text == "Ein Hund."
    assert found.log_prob == pytest.approx(expected, abs=1e-4)
    assert found.score == pytest.approx(expected / len(target) ** 0.5, abs=1e-4)


def test_streams_take_the_same_options_and_nbest_raises_the_beam(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workplace)
    translator = lamina.load("runs/first")
    lines = ["A dog runs.", "Two cats sleep."]
    assert list(translator.stream(lines, beam=2, nbest=4)) == translator.translate(lines, beam=4, nbest=4)
    assert len(translator.translate("A dog runs.", beam=1, nbest=3).nbest) == 3


def test_one_sentence_has_no_interval() -> None:
    assert lamina.score(["A dog."], ["A dog runs."], metrics="chrf")[0].interval is None
    assert lamina.score(["A dog."] * 2, ["A dog runs."] * 2, metrics="chrf")[0].interval is not None


def test_a_script_without_a_terminal_gets_lines(
    workplace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lamina.train(workplace / "recipe.yaml", workplace / "data", tmp_path / "run", progress=True, max_steps=2, warmup=1)
    said = capsys.readouterr().err
    assert "step 2  valid loss" in said
    assert "\r" not in said


def test_a_comparison_of_few_sentences_says_so(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    few = lamina.compare(["runs/first", "runs/second"], TEST, metrics="chrf")
    assert "With only 8 sentences, intervals and p-values are unreliable." in str(few)
    many = lamina.compare(["runs/first", "runs/second"], [("a", "b")] * 50, metrics="chrf", max_length=(0, 2))
    assert "unreliable" not in str(many)


def test_results_behave_like_python_objects(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    scores = lamina.evaluate("runs/first", TEST)
    assert "bleu" in scores
    assert "blue" not in scores
    assert f"{scores['bleu']:.1f}" == f"{scores['bleu'].score:.1f}"
    with pytest.raises(KeyError, match="Did you mean `bleu`"):
        scores["blue"]
    one, two = (lamina.load("runs/first").translate("A dog runs.", attention=True) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    finding = lamina.analyze.gradients(lamina.Run("runs/first"))
    assert "first: final gradients differ by up to" in str(finding)
    assert finding.pictures[0].save("new/gradients.svg").read_text().startswith("<svg")
    comparison = lamina.compare(["runs/first", "runs/second"], TEST)
    assert [row.system for row in comparison["chrf"]] == ["runs/first", "runs/second"]
    with pytest.raises(KeyError, match="Did you mean `chrf`"):
        comparison["chr"]
    data = lamina.PreparedData("data")
    split = data.split("valid")
    assert [len(pair[0]) for pair in split[-2:]] == [len(split[28][0]), len(split[29][0])]
    assert list(split[-1][1]) == list(split[29][1])
    with pytest.raises(IndexError, match="pair 30 of 30"):
        split[30]
    assert repr(data.text.source) == f"LanguageText(en, SentencePiece, {len(data.text.source.vocabulary)} symbols)"
    assert repr(data.split("valid")) == "Split(30 pairs)"


def test_a_report_creates_its_folder(workplace: Path, tmp_path: Path) -> None:
    path = lamina.analyze.report(workplace / "runs/first", out=tmp_path / "new/folder/report.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_early_stopping_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = prepare(out=tmp_path / "data")
    small = {"size": "tiny", "d_model": 16, "ffn_size": 32, "heads": 2}
    options: lamina.TrainOptions = {"max_steps": 50, "validate_every": 1, "patience": 2, "lr": 1e-9, "warmup": 0}
    run = lamina.train("transformer", data, tmp_path / "run", model=small, progress=True, **options)
    assert "after 2 validations without improvement. The model of step" in capsys.readouterr().err
    assert run.history[-1]["step"] < 50
