"""`lamina translate`, `rescore`, `eval` and `compare` on runs: one output line per input line, consistent scores."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import lamina
from lamina.search.hypothesis import Hypothesis
from lamina.text.vocabulary import EOS
from lamina.translation.translator import LONGEST
from support import Finished, run_lamina

SHORT = ["--max-length", "1.0", "3"]


def translate(*arguments: object, stdin: str = "") -> Finished:
    return run_lamina("translate", *map(str, arguments), *SHORT, stdin=stdin)


@pytest.fixture(scope="session")
def source(data: Path) -> list[str]:
    return (data / "valid.en").read_text().splitlines()[:9]


def test_one_output_line_per_input_line(straight: Path, source: list[str], tmp_path: Path) -> None:
    lines = [source[0], "", source[1], " \x00 ", "a\u2028b\x00\r", *source[2:]]
    text = "\n".join(lines) + "\n"
    piped = translate(straight, stdin=text)
    assert piped.returncode == 0, piped.stderr
    results = piped.stdout.removesuffix("\n").split("\n")
    assert len(results) == len(lines)
    assert results[1] == results[3] == ""
    assert all(results[number] for number in (0, 2, 5))
    with gzip.open(tmp_path / "in.gz", "wb") as packed:
        packed.write(text.encode())
    assert translate(straight, "--input", tmp_path / "in.gz", "--output", tmp_path / "out").returncode == 0
    assert (tmp_path / "out").read_bytes() == piped.stdout.encode()
    one_by_one = translate(straight, "--buffer", 1, stdin=text)
    assert one_by_one.stdout == piped.stdout


def test_python_gives_the_output_of_the_command(straight: Path, source: list[str]) -> None:
    command = run_lamina("translate", straight, "--format", "jsonl", stdin="\n".join(source))
    records = [json.loads(line) for line in command.stdout.splitlines()]
    results = lamina.load(straight).translate(source, beam=5, lenpen=1.0)
    assert [record["text"] for record in records] == [result.text for result in results]
    assert [record["tokens"] for record in records] == [result.tokens for result in results]
    assert [record["score"] for record in records] == pytest.approx([result.score for result in results], abs=1e-5)


def test_formats(straight: Path, source: list[str]) -> None:
    text = "\n".join(source)
    records = [
        json.loads(line)
        for line in translate(straight, "--format", "jsonl", "--nbest", 3, stdin=text).stdout.splitlines()
    ]
    assert [record["line"] for record in records] == list(range(1, len(source) + 1))
    assert [list(record) for record in records] == [
        ["line", "source", "text", "score", "log_prob", "tokens", "nbest"]
    ] * len(source)
    for record in records:
        assert len(record["nbest"]) == 3
        assert record["nbest"][0]["text"] == record["text"]
        assert record["score"] == pytest.approx(record["log_prob"] / len(record["tokens"]), abs=1e-5)
    tsv = translate(straight, "--format", "tsv", "--nbest", 3, stdin=text).stdout.splitlines()
    assert tsv[:3] == [f"1\t{best['score']:.6f}\t{best['text']}" for best in records[0]["nbest"]]
    moses = translate(straight, "--format", "moses", "--nbest", 3, stdin=text).stdout.splitlines()
    assert len(moses) == 3 * len(source)
    assert moses[3].startswith(f"1 ||| {records[1]['text']} ||| log_prob=")


def test_rescore_gives_the_scores_of_translate(straight: Path, source: list[str], tmp_path: Path) -> None:
    lines = [*source[:4], "", *source[4:]]
    out = tmp_path / "out.jsonl"
    assert (
        translate(
            straight, "--format", "jsonl", "--nbest", 2, "--output", out, "--lenpen", 0.6, stdin="\n".join(lines)
        ).returncode
        == 0
    )
    expected = [best for line in out.read_text().splitlines() for best in json.loads(line)["nbest"] if best["tokens"]]
    result = run_lamina("rescore", straight, "--input", out, "--lenpen", "0.6")
    assert result.returncode == 0, result.stderr
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["score"] for each in found] == pytest.approx([each["score"] for each in expected], abs=1e-4)
    assert [each["log_prob"] for each in found] == pytest.approx([each["log_prob"] for each in expected], abs=1e-4)
    assert [each["line"] for each in found][-2:] == [len(lines), len(lines)]


def test_rescore_of_plain_text(data: Path, straight: Path) -> None:
    result = run_lamina("rescore", straight, "--source", data / "valid.en", "--target", data / "valid.de")
    found = [json.loads(line)["log_prob"] for line in result.stdout.splitlines()]
    assert len(found) == 30
    assert all(log_prob < 0 for log_prob in found)


def test_rescore_says_what_it_truncates(straight: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("dog " * 1500 + "\n")
    (tmp_path / "b").write_text("Hund\n")
    result = run_lamina("rescore", straight, "--source", tmp_path / "a", "--target", tmp_path / "b")
    assert (result.returncode, len(result.stdout.splitlines())) == (0, 1)
    assert re.fullmatch(r"lamina: line 1: truncated: [\d,]+ source subwords dropped\.\n", result.stderr)


def test_alignments_and_attention(straight: Path, source: list[str]) -> None:
    result = translate(straight, "--format", "jsonl", "--alignments", "--attention", stdin=source[0])
    record = json.loads(result.stdout)
    rows = record["attention"]
    assert len(rows) == len(record["tokens"]) == len(record["alignments"])
    for number, (row, pair) in enumerate(zip(rows, record["alignments"], strict=True)):
        assert sum(row) == pytest.approx(1, abs=0.01)
        place, target = map(int, pair.split("-"))
        assert target == number
        assert row[place] == max(row)


def test_prefix_ensemble_checkpoint_and_sampling(straight: Path, source: list[str], tmp_path: Path) -> None:
    text = "\n".join(source)
    first = translate(straight, stdin=text).stdout
    (tmp_path / "prefix").write_text("Der\n" * len(source))
    assert all(
        line.startswith("Der")
        for line in translate(straight, "--prefix", tmp_path / "prefix", stdin=text).stdout.splitlines()
    )
    assert translate(straight, straight, stdin=text).stdout == first
    assert translate(straight, "--checkpoint", "last", stdin=text).stdout == first
    assert translate(straight / "checkpoints" / "step_000024", stdin=text).stdout == first
    assert translate(straight, "--checkpoint", "5", stdin=text).stdout != first
    drawn = [translate(straight, "--sample", "--seed", seed, stdin=text).stdout for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    greedy = translate(straight, "--sample", "--temperature", 0, stdin=text).stdout
    assert greedy == translate(straight, "--beam", 1, stdin=text).stdout
    assert len(translate(straight, "--int8", stdin=text).stdout.splitlines()) == len(source)


def test_a_note_if_int8_is_slower(straight: Path, source: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.translation.loading.int8_ratio", lambda _: 1.25)
    monkeypatch.setattr("lamina.engine.cache.user_cache", lambda _: None)
    result = translate(straight, "--int8", stdin=source[0] + "\n")
    assert result.stderr == "lamina: int8 takes 1.25× as long here; omit it.\n"
    assert translate(straight, "--int8", "--quiet", stdin=source[0] + "\n").stderr == ""


def test_a_very_long_line_is_truncated_with_a_note(straight: Path) -> None:
    result = run_lamina(
        "translate", straight, "--beam", "1", "--max-length", "0", "5", stdin="dog " * 3000 + "\nA dog.\n"
    )
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == "lamina: line 1: truncated: 4,977 subwords dropped.\n"
    assert LONGEST == 1024


def test_eval_equals_translate_and_score(data: Path, straight: Path, tmp_path: Path) -> None:
    files = [str(data / "valid.en"), str(data / "valid.de")]
    result = run_lamina(
        "eval", straight, "--test", *files, "--output", tmp_path / "out", "--metric", "bleu,chrf", "--json"
    )
    assert result.returncode == 0, result.stderr
    scored = run_lamina("score", "--hyp", tmp_path / "out", "--ref", files[1], "--metric", "bleu,chrf", "--json")
    keys = ("name", "score", "signature")
    found, expected = ([[each[key] for key in keys] for each in json.loads(one.stdout)] for one in (result, scored))
    assert found == expected
    both = run_lamina("compare", straight, straight, "--test", *files, "--samples", "20", "--metric", "bleu")
    assert both.returncode == 0, both.stderr
    assert "+0.00" in both.stdout


def test_bench(data: Path, straight: Path) -> None:
    result = run_lamina(
        "bench",
        "decode",
        straight,
        "--input",
        data / "valid.en",
        "--sentences",
        "4",
        "--repeats",
        "1",
        "--threads",
        "1",
    )
    report = json.loads(result.stdout)
    assert [each["batch"] for each in report["batches"]] == [32, 1]
    assert all(each["output_tokens_per_second"] > 0 for each in report["batches"])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--nbest", "2"], 2, "lamina: --nbest above 1 needs --format jsonl, tsv or moses.\n"),
        (["--top-k", "3"], 2, "lamina: --top-k requires --sample.\n"),
        (["--seed", "3"], 2, "lamina: --seed requires --sample.\n"),
        (["--diversity", "3"], 2, "lamina: --diversity requires --diverse-groups.\n"),
        (["--sample", "--beam", "3"], 2, "lamina: --beam applies only to beam search; omit --sample.\n"),
        (["--sample", "--prefix", "x"], 2, "lamina: --prefix applies only to beam search; omit --sample.\n"),
        (["--attention"], 2, "lamina: --alignments and --attention need --format jsonl.\n"),
        (["--checkpoint", "7"], 2, ": no checkpoint `7`; available: 5, 8, 10, 15, 16, 20, 24.\n"),
        (["--checkpoint", "bst"], 2, "The checkpoint must be best, last or a step, but is `bst` instead.\n"),
        (["--input", "nowhere"], 3, "lamina: nowhere: not found.\n"),
        (["--diverse-groups", "2"], 2, "lamina: beam: must be a multiple of diverse_groups 2, but is 5 instead.\n"),
    ],
)
def test_errors(arguments: list[str], code: int, message: str, straight: Path) -> None:
    result = run_lamina("translate", straight, *arguments)
    assert result.returncode == code
    assert result.stderr.endswith(message)


def test_folders_that_are_not_runs(tmp_path: Path) -> None:
    result = run_lamina("translate", tmp_path)
    assert (result.returncode, result.stderr) == (
        3,
        f"lamina: {tmp_path}: is neither a run with a model nor a model folder.\n",
    )


@pytest.mark.slow
def test_a_closed_pipe_is_not_an_error(straight: Path, source: list[str]) -> None:
    script = (
        f"yes {shlex.quote(source[0])} | {sys.executable} -m lamina translate {straight} --buffer 5 --beam 1 | head -2"
    )
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=100, check=True)
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == ""


@pytest.mark.slow
def test_memory_stays_constant_over_100_000_lines(straight: Path, source: list[str], tmp_path: Path) -> None:
    (tmp_path / "in").write_text("".join("\n" if number % 20 else "A dog runs.\n" for number in range(100_000)))
    script = (
        "import resource, sys; from lamina.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )

    def peak(lines: int) -> int:
        (tmp_path / "part").write_text("".join((tmp_path / "in").read_text().splitlines(keepends=True)[-lines:]))
        arguments = [
            "translate",
            straight,
            "--input",
            tmp_path / "part",
            "--output",
            tmp_path / f"out-{lines}",
            "--beam",
            "1",
            *SHORT,
        ]
        command = [sys.executable, "-c", script, *map(str, arguments)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)
        assert len((tmp_path / f"out-{lines}").read_text().splitlines()) == lines
        return int(result.stderr.split()[-1])

    assert peak(100_000) < 1.1 * peak(20_000)


def test_a_model_folder_has_no_other_checkpoints(straight: Path) -> None:
    result = run_lamina("translate", straight / "model", "--checkpoint", "5")
    message = "is a model folder, which has no other checkpoints; omit the checkpoint."
    assert (result.returncode, result.stderr) == (2, f"lamina: {straight / 'model'}: {message}\n")


def test_a_blank_source_has_an_empty_translation(straight: Path) -> None:
    translator = lamina.load(straight)
    sources, _ = translator.encode(["A dog runs.", ""])
    assert translator.translate_ids(sources)[1] == Hypothesis([EOS], 0.0, 0.0)


def test_a_document_reports_truncated_sentences(straight: Path) -> None:
    short = ["--beam", "1", "--max-length", "0", "3", "--format-in", "text"]
    result = run_lamina("translate", straight, *short, stdin="dog " * 2000)
    assert result.returncode == 0
    assert re.fullmatch(r"lamina: (dog ){10} …: truncated: [\d,]+ subwords dropped\.\n", result.stderr)


def test_a_document_keeps_its_layout(straight: Path, tmp_path: Path) -> None:
    text = "1\r\n00:00:01,000 --> 00:00:02,000\r\nA dog runs.\r\n\r\n"
    (tmp_path / "a.srt").write_bytes(text.encode())
    short = ["--beam", "1", "--max-length", "0", "3", "--format-in", "srt"]
    result = run_lamina("translate", straight, *short, "--input", tmp_path / "a.srt", "--output", tmp_path / "b.srt")
    assert result.returncode == 0, result.stderr
    written = (tmp_path / "b.srt").read_bytes().decode()
    assert written.startswith("1\r\n00:00:01,000 --> 00:00:02,000\r\n")
    assert written.endswith("\r\n\r\n")
    assert written.count("\r\n") == text.count("\r\n")
    html = run_lamina("translate", straight, *short[:-1], "html", stdin="<p>\n<b>A dog.</b></p>\n")
    assert html.stdout.startswith("<p>\n<b>")
    assert html.stdout.endswith("</b></p>\n")
    refused = run_lamina("translate", straight, "--format-in", "text", "--format", "tsv", stdin="")
    assert refused.returncode == 2
