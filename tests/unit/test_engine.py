"""The engine as a whole: supported models, sharing between threads, compilation."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lamina.base import cpu
from lamina.engine import compilation
from lamina.engine.compilation import make_engine
from lamina.engine.lowering import UnsupportedModule
from lamina.engine.search import WRITTEN
from lamina.errors import LaminaError, UsageError
from lamina.model.encoders.stack import EncoderLayer
from lamina.model.seq2seq import Seq2Seq
from lamina.recipe.decode import SearchSettings
from lamina.search.hypothesis import Hypothesis
from lamina.translation.backends import EngineBackend, SourceBatch, choose_backend
from lamina.translation.batches import BATCH_TOKENS, cut_batches
from lamina.translation.torch_backend import TorchBackend
from support import LEGAL, VARIANTS, Searcher, build_combination, make_batch, rows_of, scramble, small

SHORT = SearchSettings(beam=3, max_length=(1.0, 3))
LONG = SearchSettings(beam=5, min_length=100, max_length=(0.0, 100))


def some_sources(count: int, seed: int = 0) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [[*draw.integers(4, 23, draw.integers(1, 30)).tolist(), 2] for _ in range(count)]


def tiny(system: str = "transformer", **own: Any) -> Seq2Seq:
    """A model of size `tiny`, whose widths are multiples of the vector width."""
    torch.manual_seed(1)
    from lamina.systems.build import build

    return scramble(build(system, size="tiny", vocab_size=200, **own).eval())


@pytest.mark.slow
def test_every_lamina_module_is_supported() -> None:
    for combination in [*LEGAL, *VARIANTS]:
        make_engine([build_combination(combination)])


class Backwards(EncoderLayer):
    """Behaves differently from its base class."""

    def attend(self, x_BSD: Tensor, valid_BS: Tensor, context: tuple[Tensor, ...]) -> Tensor:
        return super().attend(-x_BSD, valid_BS, context)


def test_a_custom_layer_decodes_with_torch() -> None:
    model = small()
    plain = Searcher("torch", model).search(make_batch().source_BS, SHORT)
    layer = Backwards(model.config)
    layer.load_state_dict(model.encoder.layers[0].state_dict())
    model.encoder.layers[0] = layer.eval()
    with pytest.raises(UnsupportedModule, match="Backwards"):
        make_engine([model])
    backend, notes = choose_backend([model])
    assert isinstance(backend, TorchBackend)
    assert notes == ["the CPU engine does not support Backwards; decoding with torch, which is slower."]
    (found,) = backend.search([SourceBatch(rows_of(make_batch().source_BS))], SHORT)
    assert found == Searcher("torch", model).search(make_batch().source_BS, SHORT)
    assert found != plain
    with pytest.raises(UsageError, match="int8 needs the CPU engine, which does not support Backwards"):
        choose_backend([model], int8=True)


def test_subclasses_of_other_parts_are_rejected() -> None:
    model = small()
    model.decoder.layers[1].feed_forward.up_proj = nn.utils.parametrizations.weight_norm(
        model.decoder.layers[1].feed_forward.up_proj
    )
    with pytest.raises(UnsupportedModule, match="Linear"):
        make_engine([model])
    with pytest.raises(UnsupportedModule, match="32-bit"):
        make_engine([small().double()])


@pytest.mark.parametrize("system", ["transformer", "surface-fusion", "msc", "msc-surface"])
@pytest.mark.parametrize("backend", ["engine", "engine-int8"])
@pytest.mark.slow
def test_batches_of_1_7_and_32_give_the_same_bits(system: str, backend: str) -> None:
    engine, sources = Searcher(backend, tiny(system)).engine, some_sources(40)
    assert engine is not None
    alone = [engine.search([source], SHORT)[0] for source in sources]
    for size in (7, 32):
        each = [engine.search(sources[first : first + size], SHORT) for first in range(0, 40, size)]
        assert [hypotheses for batch in each for hypotheses in batch] == alone


@pytest.mark.parametrize("system", ["transformer-post", "msc-surface", "coordination", "merged-attention"])
def test_long_sources_and_targets(system: str) -> None:
    """Longer than the encoder's chunk and the initial table of positions."""
    model, draw = small(system), np.random.default_rng(0)
    sources = [[*draw.integers(4, 23, length).tolist(), 2] for length in (290, 30, 260)]
    prefix = [0, *draw.integers(4, 23, 600).tolist()]
    engine = make_engine([model])
    for source in sources:
        with torch.no_grad():
            expected = model.log_probs(torch.tensor([source]), torch.tensor([prefix]))[0]
        found = torch.from_numpy(engine.teacher_forced([source], [prefix]).log_probs[0])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-4)
    assert engine.search(sources, SHORT) == [engine.search([source], SHORT)[0] for source in sources]


def test_the_cache_grows_over_many_steps() -> None:
    searcher, source_BS = Searcher("engine", small("coordination")), make_batch().source_BS
    prefix = [0, *np.random.default_rng(0).integers(4, 23, 90).tolist()]
    state = searcher.stepper.start(source_BS, 2)
    for token in prefix:
        log_probs, state = searcher.stepper.step(torch.full((6,), token), state)
    expected = searcher.log_probs(rows_of(source_BS)[2], prefix)[-1]
    torch.testing.assert_close(log_probs.full()[2, 1], expected, rtol=0, atol=1e-5)


def test_threads_share_one_engine() -> None:
    engine, sources = make_engine([tiny()]), some_sources(64)
    expected = engine.search(sources, SHORT)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda source: engine.search([source], SHORT)[0], sources))
    assert found == expected
    assert len(engine._idle) <= 7
    assert all(space._weights is engine.weights for space in engine._idle)


def test_few_sentences_use_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    backend, seen = EngineBackend(make_engine([tiny()])), set()
    search, barrier = backend.engine.search, threading.Barrier(3)

    def noted(*arguments: Any) -> list[list[Hypothesis]]:
        barrier.wait(60)  # all three are at work at the same time
        seen.add(threading.current_thread().name)
        return search(*arguments)

    monkeypatch.setattr(backend.engine, "search", noted)
    sources = some_sources(9)
    numbers = list(cut_batches([len(source) for source in sources], workers=backend.batches_at_once))
    work = [SourceBatch([sources[number] for number in batch]) for batch in numbers]
    expected = search(sources, SHORT)
    assert list(backend.search(work, SHORT)) == [[expected[number] for number in batch] for batch in numbers]
    assert len(seen) == 3


@pytest.mark.parametrize(
    ("count", "workers", "sizes"),
    [(0, 2, []), (1, 2, [1]), (5, 2, [3, 2]), (32, 2, [16, 16]), (70, 2, [18, 18, 18, 16]), (64, 1, [32, 32])],
)
def test_batches_are_cut_for_the_workers(count: int, workers: int, sizes: list[int]) -> None:
    found = list(cut_batches([7] * count, 32, workers))
    assert [len(batch) for batch in found] == sizes
    assert sorted(number for batch in found for number in batch) == list(range(count))


def test_long_sentences_make_small_batches() -> None:
    found = list(cut_batches([1000] * 20, 32, 2))
    assert max(len(batch) * 1000 for batch in found) <= BATCH_TOKENS


def test_closing_the_iterator_stops_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    backend = EngineBackend(make_engine([tiny()]))
    work = [SourceBatch(some_sources(4, seed)) for seed in range(40)]
    expected = next(backend.search(work[:1], LONG))
    started = time.monotonic()
    results = backend.search(work, LONG)
    assert next(results) == expected
    first = time.monotonic() - started
    results.close()
    backend._thread_pool().submit(lambda: None).result()  # queued after the running searches
    assert time.monotonic() - started < 5 * first + 1
    assert next(backend.search(work[:1], LONG)) == expected


def test_a_cancelled_source_leaves_its_batch() -> None:
    engine, sources = make_engine([tiny()]), some_sources(3)
    found = engine.search(sources, SHORT, None, np.array([0, 1, 0]))
    expected = engine.search(sources, SHORT)
    assert [found[0], found[2]] == [expected[0], expected[2]]
    assert len(found[1]) < len(expected[1])


def test_search_works_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    backend = EngineBackend(make_engine([tiny()]))
    work = [SourceBatch(some_sources(4, seed)) for seed in range(4)]
    expected = list(backend.search(work, SHORT))  # the pool's threads exist in the parent only
    child = os.fork()
    if child == 0:
        os._exit(0 if list(backend.search(work, SHORT)) == expected else 1)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    assert ended[1] == 0


def test_an_engine_cannot_be_copied() -> None:
    import copy

    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.deepcopy(make_engine([small()]))


def test_out_of_range_tokens_are_rejected() -> None:
    engine = make_engine([small()])
    assert engine.search([], SHORT) == []
    for sources, prefixes, message in (
        ([[4, 23, 2]], None, "The source has token id 23, but the vocabulary has 23 entries."),
        ([[4, -1, 2]], None, "The source has token id -1, but the vocabulary has 23 entries."),
        ([[4, 2]], [[99]], "The prefix has token id 99, but the vocabulary has 23 entries."),
        ([[4, 2], []], None, "A source must have at least one token."),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            engine.search(sources, SHORT, prefixes)
    with pytest.raises(UsageError, match="The prefix has token id 23"):
        engine.teacher_forced([[4, 2]], [[0, 23]])
    stepper = Searcher("engine", small()).stepper
    with pytest.raises(UsageError, match="The target has token id 30"):
        stepper.step(torch.tensor([30]), stepper.start(torch.tensor([[4, 2]]), 1))


def test_a_batch_that_needs_too_much_memory_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = make_engine([tiny()]), make_engine([tiny()])
    sources, prefixes = some_sources(7), [[5]] * 3 + [[6, 7]] * 4
    expected = whole.search(sources, SHORT, prefixes)
    monkeypatch.setattr("lamina.engine.engine.SPLIT_MEMORY", 200_000)
    assert parts.search(sources, SHORT, prefixes) == expected
    assert parts._idle[0].buffers[WRITTEN].nbytes < whole._idle[0].buffers[WRITTEN].nbytes / 2
    endless = SearchSettings(beam=256, max_length=(0.0, 10_000))
    monkeypatch.setattr("lamina.engine.engine.MAX_MEMORY", 2**20)
    with pytest.raises(UsageError, match=r"would need [\d,]+ GiB of memory; lower the beam or the maximum length\."):
        parts.search(sources[:1], endless)


# compilation


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "lamina" / "engine"


def children(monkeypatch: pytest.MonkeyPatch, codes: Sequence[int]) -> list[str]:
    """Make self-tests exit with these codes; return the instruction sets that are tried."""
    tried: list[str] = []

    def run(command: list[str], env: dict[str, str], **_: Any) -> SimpleNamespace:
        tried.append(env[cpu.CHOICE_VARIABLE])
        (Path(env["LAMINA_ENGINE_CACHE"]) / "search.nbi").write_bytes(b"code")
        return SimpleNamespace(returncode=codes[len(tried) - 1], stderr=b"")

    monkeypatch.setattr(subprocess, "run", run)
    return tried


def test_an_instruction_set_that_crashes_the_self_test_is_not_used(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = cpu.INSTRUCTION_SETS[:2]
    monkeypatch.setattr(cpu, "usable_sets", lambda: list(sets))
    tried = children(monkeypatch, [-signal.SIGILL, 0])
    folder = cache_folder / "key"
    assert compilation.compile_in_child(folder) == sets[1].name
    assert tried == [each.name for each in sets]
    assert compilation.read_ready(folder) == sets[1].name
    assert capsys.readouterr().err.splitlines()[1] == f"lamina: {sets[0].name} failed on this CPU (exit code -4)."


def test_an_error_if_no_instruction_set_works(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    children(monkeypatch, [1] * 9)
    with pytest.raises(LaminaError, match="The CPU engine does not work on this machine"):
        compilation.compile_in_child(cache_folder / "key")


@pytest.mark.parametrize("damage", ["code", "ready", "missing"])
def test_damaged_compiled_code_is_not_loaded(cache_folder: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    children(monkeypatch, [0])
    folder = cache_folder / "key"
    compilation.compile_in_child(folder)
    assert compilation.read_ready(folder) is not None
    if damage == "code":
        (folder / "search.nbi").write_bytes(b"c0de")
    elif damage == "ready":
        (folder / compilation.READY).write_text("{")
    else:
        (folder / "search.nbi").unlink()
    assert compilation.read_ready(folder) is None


def test_the_key_depends_on_sources_and_lanes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(cpu.LANES_VARIABLE, raising=False)
    first = compilation.key()
    assert compilation.key() == first
    monkeypatch.setenv(cpu.LANES_VARIABLE, "4")
    assert compilation.key() != first
    monkeypatch.delenv(cpu.LANES_VARIABLE)
    package = Path(compilation.__file__).parents[1]
    for name in compilation.COMPILED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((package / name).read_bytes())
    monkeypatch.setattr(compilation, "__file__", str(tmp_path / "engine" / "compilation.py"))
    before = compilation.key()
    (tmp_path / "engine" / "operations.py").write_text("changed")
    assert compilation.key() != before


def test_the_key_covers_all_sources_of_compiled_code() -> None:
    """Every module that compiled code imports is part of the key."""
    code = "import sys; import lamina.engine.signatures; print(*[m for m in sys.modules if m.startswith('lamina.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    modules = set(done.stdout.split()) - {
        f"lamina.{name}" for name in ("base", "engine", "search", "text", "errors", "version")
    }
    modules = {name for name in modules if not name.startswith("lamina.api")}  # `import lamina` itself
    known = {f"lamina.{name.removesuffix('.py').replace('/', '.')}" for name in compilation.COMPILED}
    assert modules == known


def test_the_oldest_folders_are_removed_unless_they_are_being_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "KEPT", 1)
    for age, name in enumerate(("own", "recent", "old", "compiling")):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    with compilation.lock(tmp_path / "compiling.lock"):
        compilation.remove_others(tmp_path, tmp_path / "own")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["compiling", "own", "recent"]


def test_lanes_must_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cpu.LANES_VARIABLE, "7")
    with pytest.raises(UsageError, match="LAMINA_LANES must be 4, 8 or 16, but is `7` instead"):
        cpu.usable_sets()
    monkeypatch.setenv(cpu.LANES_VARIABLE, "8")
    assert all(each.lanes <= 8 for each in cpu.usable_sets())
    assert cpu.usable_sets()[-1].lanes == 4


@pytest.mark.slow
@pytest.mark.parametrize("lanes", ["8", "4"])
def test_narrower_vectors(lanes: str) -> None:
    """Runs the engine's tests and contracts with other vector widths."""
    root = Path(__file__).parents[1]
    tests = [root / "unit" / "test_engine_instructions.py", root / "contracts" / "test_backends.py", __file__]
    command = [sys.executable, "-m", "pytest", "-m", "not slow", "-p", "no:cacheprovider", "-n", "2", *tests]
    environment = {**os.environ, cpu.LANES_VARIABLE: lanes}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=900, check=False, cwd=root.parent
    )
    assert done.returncode == 0, done.stdout[-3000:]
