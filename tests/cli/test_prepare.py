"""`lamina prepare`: outputs, errors, interruption and resuming."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lamina.corpus.prepared import PreparedData
from lamina.demo.grammar import write_demo
from lamina.errors import DataError
from support import SHARED, needs_shared
from support import run_lamina as run

MULTI30K = SHARED / "data" / "multi30k"


def write_corpus(folder: Path, pairs: int = 300) -> None:
    generator = random.Random(5)
    words = [f"{a}{b}{c}" for a in "bdfgkl" for b in "aeiou" for c in "mnrst"]
    for split, count in (("train", pairs), ("valid", 20)):
        lines = [" ".join(generator.choices(words, k=generator.randint(3, 12))) for _ in range(count)]
        (folder / f"{split}.en").write_text("".join(f"{line}\n" for line in lines))
        (folder / f"{split}.de").write_text("".join(f"{line.upper()}\n" for line in lines))


def arguments(folder: Path) -> list[str | Path]:
    files = [
        ["--train", folder / "train.en", folder / "train.de"],
        ["--valid", folder / "valid.en", folder / "valid.de"],
    ]
    return ["prepare", *files[0], *files[1], "--vocab-size", "500", "--workers", "2", "--out", folder / "data"]


def fingerprint(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_prepare_writes_a_report(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    with (tmp_path / "train.en").open("a") as source, (tmp_path / "train.de").open("a") as target:
        source.write("\n")
        target.write("leer\n")
    result = run(*arguments(tmp_path), "--vocab-size", "5000")
    assert result.returncode == 0, result.stderr
    assert "| train | 300 |" in result.stdout
    assert "| empty: one side is empty | 1 | 301 |" in result.stdout
    assert "You asked for 5,000; this text yields only " in result.stdout
    assert (tmp_path / "data" / "report.md").read_text() in result.stdout
    data = PreparedData(tmp_path / "data")
    assert (len(data.split("train")), len(data.split("valid"))) == (300, 20)
    source, target = data.split("train")[7]
    line = (tmp_path / "train.en").read_text().split("\n")[7]
    assert data.text.source.decode(source.tolist()) == line
    assert data.text.target.decode(target.tolist()) == line.upper()
    assert data.is_whole()
    assert "Next: lamina train surface-fusion " in result.stderr


def test_copying_is_suggested_for_one_language(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    assert "Next: lamina train pointer-generator " in run(*arguments(tmp_path), "--langs", "en", "en").stderr
    (tmp_path / "corrections.m2").write_text("S A dogs runs .\nA 1 2|||R|||dog|||REQUIRED|||-NONE-|||0\n\n")
    files = "--train-m2", tmp_path / "corrections.m2", "--valid-m2", tmp_path / "corrections.m2"
    assert "Next: lamina train pointer-generator " in run("prepare", *files, "--out", tmp_path / "m2").stderr


def test_the_page_on_preparing_data_works_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "preparing-data.md").read_text()
    write_corpus(tmp_path)
    for language in ("en", "de"):
        (tmp_path / f"valid.{language}").rename(tmp_path / f"dev.{language}")
    monkeypatch.chdir(tmp_path)
    command = re.search(r"^lamina (prepare --train train.en .*)$", page, flags=re.MULTILINE)[1]
    assert run(*command.split(), "--vocab-size", "500").returncode == 0
    block, *_ = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(compile(block, "preparing-data.md", "exec"), {})


def test_a_rerun_does_nothing_and_another_plan_is_rejected(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    first = run(*arguments(tmp_path))
    assert (first.returncode, first.stdout.splitlines()[-1]) == (0, f"Prepared: {tmp_path / 'data'}")
    before = fingerprint(tmp_path / "data")
    again = run(*arguments(tmp_path))
    folder = tmp_path / "data"
    assert (again.returncode, again.stdout) == (
        0,
        f"Already prepared: {folder}. Its report is {folder / 'report.md'}.\n",
    )
    assert fingerprint(tmp_path / "data") == before
    other = run(*arguments(tmp_path), "--separate-vocab")
    assert other.returncode == 2
    assert "contains data prepared with different settings (separate_vocab)" in other.stderr


def test_one_worker_and_two_write_the_same_bytes(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    two = arguments(tmp_path)
    one = [*two[:-3], "1", "--out", tmp_path / "alone"]
    assert run(*two).returncode == run(*one).returncode == 0
    assert fingerprint(tmp_path / "data") == fingerprint(tmp_path / "alone")


@pytest.mark.parametrize(
    ("damage", "code", "message"),
    [
        (lambda f: (f / "train.de").write_text("nur eine Zeile\n"), 3, "train.en has 300 lines, but"),
        (lambda f: (f / "valid.de").write_text("nur eine Zeile\n"), 3, "valid.en has 20 lines, but"),
        (lambda f: (f / "valid.de").unlink(), 3, "valid.de: not found (valid split)."),
        (lambda f: (f / "train.de").write_bytes(b"\xff\n" * 300), 3, "train.de:1: not UTF-8"),
        (
            lambda f: [(f / name).write_text("") for name in ("train.en", "train.de")],
            3,
            "train.en: has no lines (train split).",
        ),
        (
            lambda f: [(f / "data").mkdir(), (f / "data" / "mine").touch()],
            2,
            "is not empty and contains no prepared data",
        ),
        (lambda f: (f / "data").write_text("in the way"), 3, "data: is a file, not a folder. Choose another folder."),
    ],
    ids=["mismatch", "valid-mismatch", "missing", "utf8", "empty", "occupied", "file-in-the-way"],
)
def test_errors(damage: object, code: int, message: str, tmp_path: Path) -> None:
    write_corpus(tmp_path)
    damage(tmp_path)
    result = run(*arguments(tmp_path))
    assert result.returncode == code
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "data" / "meta.json").exists()
    if "Choose another folder" not in message and "is not empty" not in message:
        assert not (tmp_path / "data").exists()


def test_a_folder_can_be_reused_after_bad_input(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    good = (tmp_path / "valid.de").read_text()
    (tmp_path / "valid.de").write_text("nur eine Zeile\n")
    assert run(*arguments(tmp_path)).returncode == 3
    assert run(*arguments(tmp_path)).returncode == 3
    (tmp_path / "valid.de").write_text(good)
    result = run(*arguments(tmp_path))
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "meta.json",
        "plan.json",
        "report.md",
        "text",
        "train",
        "valid",
    ]


def test_a_folder_interrupted_at_the_start_accepts_another_plan(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "plan.json.partial").write_text("{")
    result = run(*arguments(tmp_path))
    assert result.returncode == 0, result.stderr
    assert not list((tmp_path / "data").glob("*.partial"))


def test_inputs_inside_the_output_folder_are_rejected(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    inside = run(*arguments(tmp_path)[:-1], tmp_path)
    assert inside.returncode == 2
    assert "train.en: is inside the output folder" in inside.stderr


def test_usage_errors(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    neither = run("prepare", "--out", tmp_path / "data")
    assert (
        neither.returncode,
        "Give exactly one of --train SRC TGT, --train-pairs FILE or --train-m2 FILE." in neither.stderr,
    ) == (2, True)
    unknown = run(*arguments(tmp_path), "--no-filter", "duplicates")
    assert "Unknown filter `duplicates`. Did you mean `duplicate`?" in unknown.stderr
    codes = run(*arguments(tmp_path), "--subwords", "none", "--bpe-codes", tmp_path / "train.en")
    assert "--bpe-codes needs --subwords bpe, not --subwords none." in codes.stderr


def test_a_full_disk_leaves_nothing_that_looks_complete(tmp_path: Path) -> None:
    write_corpus(tmp_path, pairs=3000)

    def allow_small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    command = [sys.executable, "-m", "lamina", *map(str, arguments(tmp_path))]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, preexec_fn=allow_small_files
    )
    assert result.returncode == 3
    assert "cannot be written (File too large). Nothing was lost: rerun the same command to resume." in result.stderr
    assert not (tmp_path / "data" / "meta.json").exists()
    assert run(*arguments(tmp_path)).returncode == 0
    assert len(PreparedData(tmp_path / "data").split("train")) == 3000


SCRIPT = """
import sys
from pathlib import Path
from lamina.corpus import prepare
from lamina.corpus.plan import TextOptions
from lamina.corpus.reading import TwoFiles
prepare.SHARD_PAIRS = 700
folder, out = Path(sys.argv[1]), Path(sys.argv[2])
two = {name: TwoFiles(folder / f"{name}.en", folder / f"{name}.de") for name in ("train", "valid")}
prepare.prepare(prepare.Plan(two["train"], two["valid"], text=TextOptions(vocab_size=500)), out, workers=2)
"""


@pytest.mark.slow
def test_killed_at_random_and_rerun_it_writes_the_same_bytes(tmp_path: Path) -> None:
    write_corpus(tmp_path, pairs=5000)

    def command(out: str) -> list[str]:
        return [sys.executable, "-c", SCRIPT, str(tmp_path), str(tmp_path / out)]

    started = time.perf_counter()
    subprocess.run(command("straight"), check=True, timeout=120)
    duration = time.perf_counter() - started
    expected = fingerprint(tmp_path / "straight")
    assert len([name for name in expected if name.startswith("train/") and name.endswith("shard.json")]) == 8
    generator, killed = random.Random(3), 0
    while killed < 6:
        process = subprocess.Popen(command("killed"), start_new_session=True)
        try:
            process.wait(timeout=duration * generator.random())
        except subprocess.TimeoutExpired:
            killed += 1
            process.kill()
            process.wait()
        else:  # finished before the kill: try again, earlier
            shutil.rmtree(tmp_path / "killed")
            duration /= 2
    subprocess.run(command("killed"), check=True, timeout=120)
    assert fingerprint(tmp_path / "killed") == expected


@pytest.mark.slow
def test_the_demo_corpus(tmp_path: Path) -> None:
    write_demo(tmp_path, train=2000, valid=50, test=50)
    files = [tmp_path / f"{split}.{language}" for split in ("train", "valid", "test") for language in ("en", "de")]
    options = ["--train", *files[:2], "--valid", *files[2:4], "--test", *files[4:]]
    result = run("prepare", *options, "--vocab-size", "1000", "--out", tmp_path / "data")
    assert result.returncode == 0, result.stderr
    data = PreparedData(tmp_path / "data")
    assert [len(data.split(name)) for name in ("train", "valid", "test")] == [2000, 50, 50]
    assert data.text.target.decode(data.split("test")[3][1].tolist()) == files[5].read_text().split("\n")[3]


def test_a_modified_shard_is_detected(tmp_path: Path) -> None:
    write_corpus(tmp_path)
    run(*arguments(tmp_path))
    path = tmp_path / "data" / "train" / "00000" / "source.ids"
    content = bytearray(path.read_bytes())
    content[10] ^= 1
    path.write_bytes(content)
    data = PreparedData(tmp_path / "data")
    assert not data.is_whole()
    message = f"{path}: damaged (SHA-256 mismatch). Rerun `lamina prepare` to repair it."
    with pytest.raises(DataError, match=re.escape(message)):
        data.split("train", verify=True)
    assert run(*arguments(tmp_path)).returncode == 0
    assert PreparedData(tmp_path / "data").is_whole()


@needs_shared
@pytest.mark.slow
def test_multi30k_with_the_published_codes(tmp_path: Path) -> None:
    """397,793 English and 400,507 German subwords, as published for these merges."""
    files = [MULTI30K / f"{split}.lc.norm.tok.{language}.gz" for split in ("train", "val") for language in ("en", "de")]
    result = run(
        "prepare", "--train", files[0], files[1], "--valid", files[2], files[3], "--pretokenized", "--no-filter", "all",
        "--bpe-codes", MULTI30K / "bpe10k.en-de.codes", "--out", tmp_path / "data",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    train = json.loads((tmp_path / "data" / "meta.json").read_text())["splits"]["train"]
    assert train["pairs"] == 29_000
    assert train["tokens"]["source"] - train["pairs"] == 397_793
    assert train["tokens"]["target"] - train["pairs"] == 400_507


@needs_shared
@pytest.mark.slow
def test_multi30k_raw(tmp_path: Path) -> None:
    for split in ("train", "val"):
        for language in ("en", "de"):
            packed = (MULTI30K / f"{split}.{language}.gz").read_bytes()
            lines = gzip.decompress(packed).split(b"\n")[:4000]
            (tmp_path / f"{split}.{language}").write_bytes(b"\n".join(lines))
    files = [tmp_path / f"{split}.{language}" for split in ("train", "val") for language in ("en", "de")]
    result = run(
        "prepare", "--train", files[0], files[1], "--valid", files[2], files[3], "--vocab-size", "4000", "--out",
        tmp_path / "data",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    data = PreparedData(tmp_path / "data")
    assert len(data.text.source.vocabulary) == 4000
    for number in (0, 17, 1001):
        source, _ = data.split("valid")[number % 1014]
        line = (tmp_path / "val.en").read_text().split("\n")[number % 1014]
        assert data.text.source.decode(source.tolist()) == " ".join(line.split())


def test_rare_characters_are_pieces_not_bytes(tmp_path: Path) -> None:
    """A small alphabet is covered whole, so that attention maps show `Ä` and not `<0xC3>`."""
    write_corpus(tmp_path, pairs=2000)
    with (tmp_path / "train.en").open("a") as source, (tmp_path / "train.de").open("a") as target:
        source.write("K-2 once\n")
        target.write("Äß einmal\n")
    assert run(*arguments(tmp_path)).returncode == 0
    side = PreparedData(tmp_path / "data").text.source
    symbols = side.vocabulary.decode(side.encode(["K-2 Äß"])[0])
    assert "".join(symbols) == "▁K-2▁Äß"


def test_the_report_describes_the_pipeline_of_text_from(tmp_path: Path) -> None:
    write_corpus(tmp_path, pairs=50)
    files = arguments(tmp_path)[:7]
    options = "--subwords", "none", "--langs", "uk", "fr"
    assert run(*files, *options, "--out", tmp_path / "words").returncode == 0
    result = run(*files, "--text-from", tmp_path / "words", "--out", tmp_path / "again")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "again" / "report.md").read_text().startswith("# Prepared data: uk → fr\n")
    assert repr(PreparedData(tmp_path / "again")).startswith(f"PreparedData('{tmp_path / 'again'}', uk → fr, ")
    line = re.search(r"## Vocabulary\n\n(.*)", (tmp_path / "again" / "report.md").read_text())[1]
    assert line.startswith("none, shared by both sides: ")
    assert line == re.search(r"## Vocabulary\n\n(.*)", (tmp_path / "words" / "report.md").read_text())[1]
