"""The documentation matches the code: commands parse, options and keys exist, recipes load, tutorials run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from lamina.cli import app
from lamina.corpus.noise import ErrorSettings
from lamina.interop.fairseq.arguments import DEFAULTS, NEUTRAL
from lamina.recipe.json_schema import recipe_schema
from lamina.recipe.loader import load_recipe
from lamina.recipe.shipped import shipped_names
from lamina.study.study import Study
from support import run_lamina

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
CLI: Any = typer.main.get_command(app)
FAIRSEQ = "from-fairseq.md"
FILES = {"train.log", "train.m2", "train.jsonl", "train.jsonl.gz", "train.src", "train.tgt"}  # not recipe keys
ELSEWHERE = {  # options of other programs mentioned on pages
    "--nproc-per-node", "--nnodes", "--node-rank", "--master-addr", "--master-port",  # torchrun
    "--rdzv-backend", "--rdzv-endpoint",
    "--paired-bs", "--paired-ar",  # sacreBLEU
    "--size",  # benchmarks/training_speed.py
    "--build-arg",  # Docker
    "--signal",  # Docker
    "--directory",  # python -m http.server
}  # fmt: skip

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def blocks(page: Path, *languages: str) -> list[str]:
    """Fenced blocks of a language; blocks without a language are commands."""
    return [block for language, block in FENCED.findall(page.read_text()) if language in languages]


def inline(page: Path) -> list[str]:
    """Inline code."""
    prose = FENCED.sub("", page.read_text())
    return [code.replace(r"\|", "|") for code in re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", prose)]


def commands(text: str) -> Iterator[list[str]]:
    """Arguments of every `lamina` command."""
    for line in text.replace("\\\n", " ").splitlines():
        match = re.match(r"\s*(?:\$ |echo .* \| |torchrun .* -m |python -m )?lamina (\S.*)", line)
        if match:
            words = shlex.split(match.group(1), comments=True)
            yield words[: words.index(">")] if ">" in words else words


def indented(page: Path) -> str:
    """Indented code blocks."""
    prose = FENCED.sub("", page.read_text())
    return "\n".join(re.findall(r"^    (.*)$", prose, flags=re.MULTILINE))


def find(words: list[str]) -> tuple[Any, list[str]]:
    """Find a command and its arguments."""
    verb = CLI
    while hasattr(verb, "commands") and words and words[0] in verb.commands:
        verb, words = verb.commands[words[0]], words[1:]
    return verb, words


def options(verb: Any) -> set[str]:
    return {option for parameter in verb.params for option in parameter.opts if option.startswith("--")}


def every_option(verb: Any = CLI) -> set[str]:
    below = (every_option(each) for each in getattr(verb, "commands", {}).values())
    return options(verb).union(*below)


@each_page
def test_every_command_is_accepted(page: Path) -> None:
    found = list(commands("\n".join([*blocks(page, "", "bash", "console", "sh"), indented(page)])))
    assert len(found) >= len(re.findall(r"^ *(?:lamina|torchrun) ", page.read_text(), flags=re.MULTILINE))
    for words in found:
        verb, rest = find(words)
        assert verb is not CLI, f"lamina {shlex.join(words)}: no such verb"
        verb.make_context(verb.name, list(rest))  # parses, and runs nothing
        if words[:2] in (["recipes", "show"], ["recipes", "copy"]):
            assert rest[0] in shipped_names()


@each_page
def test_every_inline_command_exists(page: Path) -> None:
    for words in commands("\n".join(code.replace("\n", " ") for code in inline(page))):
        if words[0] == "VERB":
            continue
        verb, rest = find(words)
        assert verb is not CLI, f"lamina {shlex.join(words)}: no such verb"
        given = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert given <= options(verb) | {"--help", "--debug"}, f"lamina {shlex.join(words)}: no such option"


@each_page
def test_every_option_exists(page: Path) -> None:
    text = page.read_text()
    if page.name == FAIRSEQ:  # the first column is fairseq's
        text = re.sub(r"^\|[^|]*\|", "|", text, flags=re.MULTILINE)
        text = re.sub(r"`--decoder-[\w-]+`", "", text)
    given = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", re.sub(r"^pip .*$|^python .*$", "", text, flags=re.MULTILINE)))
    assert given <= every_option() | ELSEWHERE


@each_page
def test_every_recipe_loads(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "yaml"):
        content = yaml.safe_load(block)
        if "systems" in content:  # a study
            Study.model_validate(content)
            continue
        if "mix" in content:  # errors for `lamina noise`
            ErrorSettings.model_validate(content)
            continue
        assert set(content) <= set(recipe_schema()["properties"]), content
        (tmp_path / "recipe.yaml").write_text(block)
        load_recipe(tmp_path / "recipe.yaml", [], (1000, 1000), shared_vocabulary=True)


@each_page
def test_every_link_has_a_target(page: Path) -> None:
    """Links within the checkout; `tools/build_site.py` checks links to generated pages, and anchors."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path = target.partition("#")[0]
        if path and ":" not in path and not re.match(r"(\.\./)*(reference|notebooks)/", path):
            assert (page.parent / path).exists(), target


def test_the_fairseq_page_documents_every_imported_flag() -> None:
    text = (ROOT / "docs" / FAIRSEQ).read_text()
    missing = [
        name for name in {**DEFAULTS, **NEUTRAL} if f"`{name}" not in text and f"--{name.replace('_', '-')}" not in text
    ]
    assert not missing


@each_page
def test_every_key_of_a_recipe_exists(page: Path) -> None:
    schema: Any = recipe_schema()
    for path in set(re.findall(r"`((?:model|train|decode)(?:\.\w+)+)`", page.read_text())) - FILES:
        place = schema
        for key in path.split("."):
            assert key in place["properties"], path
            place = place["properties"][key]


def test_every_message_on_the_error_page_is_in_the_code() -> None:
    """Compares the constant words, which are the headings that readers search for."""
    code = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    joined = re.sub(r'"\n\s+f?"', "", code)  # multi-line strings
    headings = re.findall(r'^### "(.+)"$', (ROOT / "docs" / "troubleshooting.md").read_text(), flags=re.MULTILINE)
    assert [each for each in headings if each not in joined] == []
    assert len(headings) >= 20


def test_the_sockets_page_builds() -> None:
    for block in blocks(ROOT / "docs" / "concepts" / "sockets.md", "python"):
        exec(compile(block, "sockets.md", "exec"), {})


SMALLER = {  # the tutorial's value: the test's value
    "train=20_000, valid=500, test=500": "train=250, valid=30, test=12",
    "size: tiny,": "size: tiny, d_model: 16, ffn_size: 32, heads: 2, encoder: {layers: 2}, decoder: {layers: 2},",
    "max_steps: 600, batch_tokens: 2048": "max_steps: 15, batch_tokens: 256",
    "warmup: 200,\n": "warmup: 5, log_every: 5,\n",
    "save_every: 100, validate_every: 100": "save_every: 5, validate_every: 5",
}


SMALL_MODEL = "size: tiny, d_model: 16, ffn_size: 32, heads: 2, encoder: {layers: 2}, decoder: {layers: 2}, dropout"
TASKS = {
    "tutorial-summarization.md": {
        '("train", 2000), ("valid", 100), ("test", 200)': '("train", 60), ("valid", 8), ("test", 4)',
        "size: tiny, dropout": SMALL_MODEL,
        "max_steps: 600, batch_tokens: 1024": "max_steps: 6, batch_tokens: 256",
        "warmup: 100,\n        save_every: 100, validate_every: 100": "warmup: 3, save_every: 3, validate_every: 6",
    },
    "tutorial-correction.md": {
        "train=10_000, valid=120, test=200": "train=80, valid=8, test=4",
        "size: tiny, dropout": SMALL_MODEL,
        "max_steps: 500, batch_tokens: 2048": "max_steps: 6, batch_tokens: 256",
        "warmup: 100,\n        save_every: 100, validate_every: 100": "warmup: 3, save_every: 3, validate_every: 6",
    },
}


DEEP = {
    "train=20_000, valid=500, test=500": "train=120, valid=8, test=4",
    "--vocab-size 4000": "--vocab-size 500",
    "size: tiny, d_model: 64, ffn_size: 128": "size: tiny, d_model: 16, ffn_size: 32, heads: 2, decoder: {layers: 2}",
    "encoder: {layers: 24}": "encoder: {layers: 4}",
    "model.encoder.layers=4": "model.encoder.layers=2",
    "max_steps: 300, batch_tokens: 1024": "max_steps: 3, batch_tokens: 256",
    "warmup: 100,\n": "warmup: 1,\n",
    "save_every: 100, validate_every: 100, gradients_every: 10": "validate_every: 3, gradients_every: 1",
}


@pytest.mark.slow
def test_the_tutorial_of_a_deep_encoder_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page("tutorial-deep.md", DEEP) == [
        "prepare",
        *["train"] * 5,
        "analyze",
        "compare",
        "translate",
        "analyze",
    ]
    assert (tmp_path / "figures" / "gradients.html").is_file()


@pytest.mark.parametrize("page", TASKS)
def test_the_tutorials_of_tasks_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rouge_score")
    monkeypatch.chdir(tmp_path)
    ran = run_page(page, TASKS[page])
    assert ran[0] in ("prepare", "noise")
    assert len(Path("test.out").read_text().splitlines()) == 4


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_page("tutorial.md", SMALLER)
    wanted = ["prepare", "train", "translate", "translate", "translate", "eval", "score", "train", "compare", "average"]
    assert ran == [*wanted, "eval"]
    assert len(Path("plain.de").read_text().splitlines()) == 12


def run_page(page: str, smaller: dict[str, str]) -> list[str]:
    """Run all blocks of a page: execute Python, save recipes under the name in their first line, run commands.

    Every line of a documented output must be printed by the commands or Python above it, apart from numbers.
    """
    text = (ROOT / "docs" / page).read_text()
    for documented, tested in smaller.items():
        assert documented in text
        text = text.replace(documented, tested)
    ran, printed = [], set[str]()
    for language, block in FENCED.findall(text):
        if language == "text":
            documented_lines = [shape(line) for line in block.splitlines() if line != "…"]
            assert [line for line in documented_lines if line not in printed] == []
            continue
        if language == "python":
            with redirect_stdout(StringIO()) as output:
                exec(compile(block, page, "exec"), {})
            printed |= {shape(line) for line in output.getvalue().splitlines()}
        elif language == "yaml":
            Path(block.partition("\n")[0].removeprefix("# ")).write_text(block)
        else:
            spoken = re.match(r'echo "(.*)" \|', block)
            for words in commands(block):
                result = run_lamina(*words, stdin=f"{spoken.group(1)}\n" if spoken else "")
                assert result.returncode == 0, f"{shlex.join(words)}\n{result.stderr}"
                printed |= {shape(line) for line in (result.stdout + result.stderr).splitlines()}
                ran.append(words[0])
    return ran


def shape(line: str) -> str:
    """A printed line without what depends on sizes and speed: numbers, signs, padding, times left, marks."""
    line = re.sub(r"(  \S+ (s|min|h \S+ min) left)?(  best)?$", "", line)
    line = re.sub(r"lines: \w+ .*", "lines", line)  # errors by kind, in order of frequency
    return re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,:e+-]*(·10[⁰¹²³⁴⁵⁶⁷⁸⁹]+)?", "0", line).replace("steps", "step"))


def test_short_inline_code_stays_on_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    from build_site import prepare

    whole = "Use `--no-filter`{ .whole } and `beam`."
    assert prepare(whole.replace("{ .whole }", ""), tmp_path) == whole
    long = "`lamina train my_recipe.yaml\n--data data --set train.max_steps=5`"
    words = ["lamina", "train", "my&#95;recipe.yaml", "--data", "data", "--set", "train.max&#95;steps=5"]
    words = [f'<span class="whole">{word}</span>' if word.startswith("-") else word for word in words]
    assert prepare(long, tmp_path) == f"<code>{' '.join(words)}</code>"
    for unchanged in ("# The `--int8` option\n", "```\n`--int8`\n```\n", "    `--int8`\n"):
        assert prepare(unchanged, tmp_path) == unchanged


def test_columns_with_long_texts_are_wide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    from build_site import prepare

    rows = "|---|---|\n| `a\\|b` | " + "word " * 13 + "|\n"
    assert prepare("| key | meaning |\n" + rows, tmp_path) == "| key | meaning { .wide } |\n" + rows
