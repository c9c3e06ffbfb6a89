"""Behaviour of the command line: one-line errors, help with examples, shell completion, suggested next commands."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from lamina.cli import app
from lamina.cli.next_step import say_next
from lamina.cli.status import show_loading
from support import Finished, run_lamina

TRAIN = "Example: lamina train surface-fusion --data data --out runs/first"
PREPARE = "Example: lamina prepare --train train.en train.de --valid dev.en dev.de --out data"


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """All commands and subcommands, by name."""
    command = command or typer.main.get_command(app)
    if path:
        yield " ".join(path), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


VERBS = dict(commands())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("trian", "lamina: unknown command `trian`. Did you mean `train`? See `lamina --help`."),
        ("qqq", "lamina: unknown command `qqq`. See `lamina --help`."),
        (
            "bench trian",
            "lamina bench: unknown command `trian`. Did you mean `train`? See `lamina bench --help`.",
        ),
        (
            "recipes shema",
            "lamina recipes: unknown command `shema`. Did you mean `schema`? See `lamina recipes --help`.",
        ),
        ("--", "lamina: a command is missing. See `lamina --help`."),
        ("--verson", "lamina: unknown option `--verson`. Did you mean `--version`? See `lamina --help`."),
        (
            "prepare --lang en",
            "lamina prepare: unknown option `--lang`. Did you mean `--langs`? See `lamina prepare --help`.",
        ),
        ("train r --dat x", "lamina train: unknown option `--dat`. Did you mean `--data`? See `lamina train --help`."),
        ("train r --dat=x", "lamina train: unknown option `--dat`. Did you mean `--data`? See `lamina train --help`."),
        ("train r -data x", "lamina train: unknown option `-data`. Did you mean `--data`? See `lamina train --help`."),
        ("train r -q", "lamina train: unknown option `-q`. See `lamina train --help`."),
        (
            "bench train r --stps 3",
            "lamina bench train: unknown option `--stps`. Did you mean `--steps`? See `lamina bench train --help`.",
        ),
        ("train", f"lamina train: RECIPE is required. {TRAIN}"),
        ("prepare", f"lamina prepare: --out is required. {PREPARE}"),
        (
            "eval runs/first",
            "lamina eval: --test SRC TGT is required. Example: lamina eval runs/first --test test.en test.de",
        ),
        (
            "bench decode r",
            "lamina bench decode: --input is required. "
            "Example: lamina bench decode runs/first --input test.en --batch 32 --batch 1",
        ),
        ("train a b c", f"lamina train: unexpected arguments `b c`. {TRAIN}"),
        ("train a --set train.lr 1", f"lamina train: --set needs KEY=VALUE: --set train.lr=1. {TRAIN}"),
        ("train r --data", f"lamina train: --data needs a value. {TRAIN}"),
        ("train r --quiet=1", f"lamina train: --quiet takes no value. {TRAIN}"),
        ("train --help=1", f"lamina train: --help takes no value. {TRAIN}"),
        ("prepare --train x", f"lamina prepare: --train SRC TGT needs 2 values. {PREPARE}"),
        ("prepare --train x --out d", f"lamina prepare: --train SRC TGT needs 2 values. {PREPARE}"),
        ("train r --out --quiet", f"lamina train: --out needs a value. {TRAIN}"),
        ("train r --device gpu", "lamina train: --device must be one of `auto`, `cpu`, `cuda`, but is `gpu` instead."),
        ("translate r --beam 0", "lamina translate: --beam must be greater than or equal to 1, but is `0` instead."),
        ("translate r --beam x", "lamina translate: --beam must be a valid integer, but is `x` instead."),
    ],
)
def test_usage_errors_are_one_line(line: str, message: str) -> None:
    assert run_lamina(*line.split()) == (2, "", f"{message}\n")


def test_tracebacks_need_debug() -> None:
    result = run_lamina("trian", "--debug")
    assert result.stderr.startswith("Traceback")
    assert result.stderr.endswith("Did you mean `train`? See `lamina --help`.\n")


def test_without_a_command_the_help_is_shown() -> None:
    assert run_lamina() == run_lamina("--help")
    result = run_lamina("bench")
    assert "Usage: " in result.stdout
    assert result.stderr == "lamina bench: a command is missing. See `lamina bench --help`.\n"


def show_help(verb: str) -> str:
    """Help without colours, which some environments force."""
    return re.sub(r"\x1b\[[\d;]*m", "", run_lamina(*verb.split(), "--help").stdout)


@pytest.mark.parametrize("verb", VERBS)
def test_help_starts_with_examples(verb: str) -> None:
    shown = show_help(verb)
    lines = [line.strip() for line in shown.splitlines()]
    heading = next(number for number, line in enumerate(lines) if line in ("Example", "Examples"))
    assert any(line == f"lamina {verb}" or line.startswith(f"lamina {verb} ") for line in lines[heading:])
    assert heading < next(number for number, line in enumerate(lines) if "─ Options ─" in line)
    assert "\n     lamina" not in shown  # no deeper than other text


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_is_explained(verb: str) -> None:
    assert [parameter.name for parameter in VERBS[verb].params if not parameter.help] == []


def test_defaults_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = show_help("translate")
    for default in ("(stdin)", "(the run's, else 5)", "(the run's, else 2.0 20)", "auto"):
        assert f"[default: {default}]" in text


def complete(shell: str, **environment: str) -> str:
    everything = {**os.environ, "_LAMINA_COMPLETE": shell, **environment}
    script = "import sys; from lamina.cli import main\ntry: main()\nfinally: assert 'torch' not in sys.modules"
    return subprocess.check_output([sys.executable, "-c", script], text=True, env=everything)


def test_shells_complete_commands_and_options() -> None:
    verbs = complete("complete_bash", COMP_WORDS="lamina tr", COMP_CWORD="1").split()
    assert verbs == ["train", "translate"]
    options = complete("complete_bash", COMP_WORDS="lamina average runs/first --l", COMP_CWORD="3").split()
    assert options == ["--last"]


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o default -F _lamina_completion lamina"),
        ("zsh", "compdef _lamina_completion lamina"),
        ("fish", "complete --command lamina"),
    ],
)
def test_every_shell_has_a_completion_script(shell: str, line: str) -> None:
    assert line in complete(f"source_{shell}")


def test_the_script_is_shown_for_the_shell_in_use() -> None:
    script = f"{sys.executable} -m lamina --show-completion; true"  # with several commands bash stays the parent
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert "complete -o default -F _lamina_completion lamina" in result.stdout


def test_completion_options_are_top_level_only() -> None:
    assert "--install-completion" in show_help("")
    assert all("completion" not in show_help(verb) for verb in ("train", "bench"))


def next_command(result: Finished) -> list[str]:
    """Arguments of the suggested next command, if the last line has one."""
    *_, last = result.stderr.splitlines()
    assert last.startswith("Next: lamina ")
    return shlex.split(last)[2:]


def test_the_suggested_next_command_works(data: Path, straight: Path, tmp_path: Path) -> None:
    run = tmp_path / "my run"
    shutil.copytree(straight, run)
    files = [data / f"{split}.{language}" for split in ("train", "valid") for language in ("en", "de")]
    prepare = ["prepare", "--train", *files[:2], "--valid", *files[2:], "--vocab-size", "500", "--out", data / "data"]
    train = next_command(run_lamina(*prepare))
    assert train == ["train", "surface-fusion", "--data", str(data / "data"), "--out", "runs/first"]
    plan = run_lamina(*train[:-1], str(tmp_path / "first"), "--dry-run", "--threads", "1")
    assert (plan.returncode, (tmp_path / "first").exists()) == (0, False)
    assert "To change them, use --set." in plan.stdout
    command = ["train", data / "recipe.yaml", "--data", data / "data", "--out", run]
    translate = next_command(run_lamina(*command))
    assert translate == ["translate", str(run)]
    assert run_lamina(*command, "--quiet").stderr == ""
    averaged = next_command(run_lamina("average", run, "--last", "2"))
    for words in (translate, averaged, next_command(run_lamina("recipes"))):
        result = run_lamina(*words, stdin="A dog runs.\n")
        assert (result.returncode, len(result.stdout.splitlines()) >= 1) == (0, True), result.stderr


def test_translate_suggests_nothing(straight: Path, tmp_path: Path) -> None:
    out, short = tmp_path / "out.de", ["--beam", "1", "--max-length", "0", "3"]
    for options in (["--output", out], ["--quiet", "--output", out, "--force"], []):
        assert run_lamina("translate", straight, *short, *options, stdin="A dog runs.\n").stderr == ""


def test_flags_have_no_value_in_the_help() -> None:
    assert "<bool>" not in show_help("train") + show_help("analyze gradients") + show_help("")


def test_resume_options_are_explained() -> None:
    result = run_lamina("train", "x", "--resume")
    assert (result.returncode, "to resume, rerun the same command." in result.stderr) == (2, True)


def test_the_spinner_ends_with_the_first_output(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, out = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", out)
    with show_loading("lamina train: loading …"):
        deadline = time.monotonic() + 20
        while "loading" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        print("done")
        shown = terminal.getvalue()
        time.sleep(0.6)
    assert "lamina train: loading …" in shown
    assert shown.endswith("\r\x1b[K")
    assert (terminal.getvalue(), out.getvalue()) == (shown, "done\n")  # no spinner after the output
    assert (sys.stderr, sys.stdout) == (terminal, out)


def test_only_the_first_rank_prints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in ("0", "1"):
        monkeypatch.setenv("RANK", rank)
        say_next("lamina", "eval", Path("runs/first"))
    assert capsys.readouterr() == ("", "Next: lamina eval runs/first\n")
