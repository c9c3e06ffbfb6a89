"""`lamina score` and `lamina compare`."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from support import SHARED, needs_shared
from support import run_lamina as run

JFLEG = SHARED / "data" / "jfleg"
REFERENCE = ["the cat sat on the mat .", "a dog barks at the moon tonight .", "nobody knows what it was ."]
HYPOTHESIS = ["the cat sat on a mat .", "a dog barks at a moon tonight .", "nobody knows what it was ."]
WORSE = ["the cat was on mat .", "a dog is at the moon .", "somebody knows it ."]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, lines in (("ref", REFERENCE), ("hyp", HYPOTHESIS), ("worse", WORSE), ("short", WORSE[:2])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "gold.m2").write_text("S a b c\nA 1 2|||T|||x|||REQUIRED|||-NONE-|||0\n\nS d\n")
    (tmp_path / "corrected").write_text("a x c\nd\n")
    return tmp_path


def test_tokenised_references_are_pointed_out_once(folder: Path) -> None:
    files = ("--test", folder / "hyp", folder / "ref")
    expected = (
        f"lamina: {folder / 'ref'}: is tokenised, but `bleu` expects detokenised text; use --metric multi-bleu to "
        "compare with published scores on tokenised text.\n"
    )
    assert run("eval", "--baseline", "copy", *files).stderr == expected
    assert run("compare", "--baseline", "copy", "--baseline", "lead-1", *files).stderr == expected
    assert run("eval", "--baseline", "copy", *files, "--metric", "multi-bleu").stderr == ""


def test_one_line_per_metric(folder: Path) -> None:
    result = run("score", "--hyp", folder / "hyp", "--ref", folder / "ref")
    assert result.returncode == 0, result.stderr
    bleu, chrf = result.stdout.splitlines()
    assert re.fullmatch(r"bleu  \d\d\.\d\d  \(precision_1 \d.*bp 1, .*\)  nrefs:1\|case:mixed\|.*\|version:.*", bleu)
    assert re.fullmatch(r"chrf  \d\d\.\d\d  \(precision .*, recall .*\)  nrefs:1\|.*", chrf)


def test_json_and_several_metrics(folder: Path) -> None:
    (folder / "ref.gz").write_bytes(gzip.compress((folder / "ref").read_bytes()))
    options = ["--metric", "ter,multi-bleu", "--metric", "bleu", "--lowercase", "--json"]
    result = run("score", "--hyp", folder / "ref", "--ref", folder / "ref.gz", "--ref", folder / "hyp", *options)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert [each["name"] for each in found] == ["ter", "multi-bleu", "bleu"]
    assert [round(each["score"], 6) for each in found] == [0.0, 100.0, 100.0]
    assert set(found[0]) == {"name", "score", "signature", "details"}
    assert "nrefs:2|case:lc" in found[2]["signature"]
    assert "not comparable with sacreBLEU" in found[1]["signature"]


def test_m2(folder: Path) -> None:
    result = run("score", "--hyp", folder / "corrected", "--ref", folder / "gold.m2", "--metric", "m2")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("m2  100.00  (precision 100, recall 100, correct 1, proposed 1, gold 1)  MaxMatch")


@needs_shared
def test_gleu_of_copying_jfleg() -> None:
    references = [argument for number in range(4) for argument in ("--ref", JFLEG / f"dev.ref{number}.gz")]
    source = JFLEG / "dev.src.gz"
    result = run("score", "--hyp", source, *references, "--source", source, "--metric", "gleu")
    assert result.stdout.startswith("gleu  38.21  ("), result.stderr


def test_errors(folder: Path) -> None:
    hyp, ref, short = folder / "hyp", folder / "ref", folder / "short"
    result = run("score", "--hyp", short, "--ref", ref)
    assert (result.returncode, result.stderr) == (3, f"lamina: {ref} has 3 lines, but {short} has 2 lines.\n")
    result = run("score", "--hyp", hyp, "--ref", ref, "--ref", short)
    assert (result.returncode, result.stderr) == (3, f"lamina: {ref} has 3 lines, but {short} has 2 lines.\n")
    result = run("score", "--hyp", hyp, "--ref", folder / "gold.m2", "--metric", "m2")
    assert result.stderr == f"lamina: {folder / 'gold.m2'} has 2 sentences, but {hyp} has 3 lines.\n"
    result = run("score", "--hyp", hyp, "--ref", ref, "--metric", "bluu")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("lamina: Unknown metric `bluu`. Did you mean `bleu`? Metrics: bleu, chrf")
    result = run("score", "--hyp", hyp, "--ref", ref, "--metric", "gleu")
    assert (result.returncode, "--source" in result.stderr) == (2, True)
    result = run("score", "--hyp", hyp, "--ref", ref, "--ref", ref, "--metric", "m2")
    assert (result.returncode, "m2 takes one reference" in result.stderr) == (2, True)
    result = run("score", "--hyp", hyp, "--ref", folder / "none")
    assert (result.returncode, result.stderr) == (3, f"lamina: {folder / 'none'}: not found.\n")
    (folder / "empty").write_text("")
    result = run("score", "--hyp", folder / "empty", "--ref", folder / "empty")
    assert (result.returncode, result.stderr) == (3, f"lamina: {folder / 'empty'}: has no lines.\n")
    assert run("score", "--hyp", hyp).returncode == 2


def test_compare_prints_one_table(folder: Path) -> None:
    options = ["--metric", "bleu,ter", "--significance", "both", "--samples", "50"]
    outputs = ["--hyp", folder / "worse", "--hyp", folder / "hyp"]
    result = run("compare", "--ref", folder / "ref", *outputs, *options)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split("  ")[0] == "metric"
    assert "p (bootstrap)" in lines[0]
    assert "p (randomisation)" in lines[0]
    assert re.fullmatch(rf"bleu +{folder / 'worse'} +[\d.]+ ± [\d.]+ +baseline", lines[1])
    assert re.fullmatch(rf"bleu +{folder / 'hyp'} +[\d.]+ ± [\d.]+ +\+[\d.]+ +[01]\.\d{{4}} +[01]\.\d{{4}}", lines[2])
    assert lines[3].startswith("ter ")
    assert lines[-2].startswith("ter: nrefs:1|case:lc")
    assert lines[-2].endswith("(lower is better)")
    assert lines[-1] == "With only 3 sentences, intervals and p-values are unreliable."


def test_compare_as_json_is_reproducible(folder: Path) -> None:
    arguments = ["compare", "--ref", folder / "ref", "--hyp", folder / "hyp", "--hyp", folder / "worse"]
    first, second = (run(*arguments, "--json", "--samples", "50", "--seed", "3") for _ in range(2))
    assert first == second
    rows = json.loads(first.stdout)
    assert [(row["metric"], row["system"]) for row in rows[:2]] == [
        ("bleu", str(folder / "hyp")),
        ("bleu", str(folder / "worse")),
    ]
    assert rows[0]["difference"] is None
    assert rows[1]["difference"] == pytest.approx(rows[1]["score"] - rows[0]["score"])
    assert rows[1]["interval"][0] <= rows[1]["interval"][1]
    assert rows[1]["p_randomisation"] is None


def test_compare_needs_two_outputs(folder: Path) -> None:
    result = run("compare", "--ref", folder / "ref", "--hyp", folder / "hyp")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"lamina: Only {folder / 'hyp'} was given. Give the baseline first")


@pytest.mark.parametrize("option", ["--output out", "--int8", "--shortlist list", "--beam 3", "--checkpoint last"])
def test_decoding_options_need_runs(option: str, folder: Path) -> None:
    files = "--ref", folder / "ref", "--hyp", folder / "hyp", "--hyp", folder / "ref"
    result = run("compare", *files, *option.split())
    message = f"{option.split()[0]} is for the translations of runs; it cannot be used with --hyp."
    assert (result.returncode, result.stderr) == (2, f"lamina: {message}\n")


@pytest.mark.parametrize("verb", ["score", "compare"])
def test_help_has_examples(verb: str) -> None:
    result = run(verb, "--help")
    assert result.returncode == 0
    assert f"lamina {verb} --" in result.stdout
