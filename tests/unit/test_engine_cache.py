"""The cache of lowered models: the same results as without it, without torch, and never stale."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from lamina.base import devices, threads
from lamina.base.files import user_cache
from lamina.engine import cache
from lamina.engine.compilation import make_engine
from lamina.engine.program import LoweredModel
from lamina.errors import DataError, UsageError
from lamina.search.sampling import SamplingSettings
from lamina.search.shortlist import Shortlist, digest_vocabularies
from lamina.store.model_files import read_config_file
from lamina.systems.published import SYSTEMS
from lamina.translation import loading
from lamina.translation.loading import load
from lamina.translation.translator import Translation, Translator
from support import VOCABULARY, save, small

LINES = ["w1 w2 w9", "w3", "w5 w5 w12 w7 w1"]


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setattr(cache, "user_cache", lambda _: folder)
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save(small("msc-surface"), tmp_path / "model")
    return tmp_path / "model"


def entry_of(cache_folder: Path) -> Path:
    (entry,) = cache_folder.glob("*.program")
    return entry


def is_hit(translator: Translator) -> bool:
    return not translator._models


def translate(translator: Translator) -> list[Translation]:
    return translator.translate(LINES, nbest=3)


@pytest.mark.parametrize("int8", [False, True])
def test_a_hit_is_bit_identical_to_a_miss(cache_folder: Path, model: Path, int8: bool) -> None:
    first, second = load(model, int8=int8), load(model, int8=int8)
    assert (is_hit(first), is_hit(second)) == (False, True)
    assert translate(second) == translate(first)
    assert torch.equal(
        second.translate(LINES[0], attention=True).attention, first.translate(LINES[0], attention=True).attention
    )
    drawn = [each.translate(LINES, sampling=SamplingSettings(seed=3)) for each in (first, second)]
    assert drawn[0] == drawn[1]


def test_the_command_line_translates_without_torch(model: Path, tmp_path: Path) -> None:
    (tmp_path / "lamina").mkdir()
    (tmp_path / "lamina" / "engine").symlink_to(user_cache("engine") or tmp_path)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    code = "import sys\nfrom lamina.cli import main\ntry:\n    main()\nexcept SystemExit as end:\n    print(end.code)"
    command = [sys.executable, "-c", f"{code}\nprint('torch' in sys.modules)", "translate", str(model)]
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 300, "check": True}
    ends = [subprocess.run(command, input=f"{LINES[0]}\n", env=environment, **options).stdout for _ in range(2)]
    expected = translate(load(model))[0].text
    assert ends == [f"{expected}\nNone\n{torch_there}\n" for torch_there in (True, False)]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_program_can_be_saved_and_loaded(system: str) -> None:
    lowered, kind = make_engine([small(system)]).lowered, TypeAdapter(LoweredModel)
    assert kind.validate_json(kind.dump_json(lowered)) == lowered


def test_an_ensemble_has_its_own_entry(cache_folder: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    save(small("transformer"), folders[0])
    save(small("msc"), folders[1])
    first = translate(load(*folders))
    for each in (folders[:1], folders[1:], folders[::-1]):
        assert not is_hit(load(*each))
    assert is_hit(again := load(*folders))
    assert translate(again) == first
    assert len(list(cache_folder.glob("*.program"))) == 4


def test_other_weights_have_another_entry(cache_folder: Path, model: Path) -> None:
    before = translate(load(model))
    other = small("msc-surface")
    with torch.no_grad():
        other.head.weight_VD.mul_(1.5)
    save(other, model)
    translator = load(model)
    assert not is_hit(translator)
    assert [each.log_prob for each in translate(translator)] != [each.log_prob for each in before]


def test_other_engine_sources_have_another_entry(
    cache_folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(model)
    monkeypatch.setattr(cache, "source_digest", lambda: "changed")
    assert not is_hit(load(model))


def test_the_sources_are_those_of_engine_and_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("engine/lowering/heads.py", "model/seq2seq.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "engine" / "cache.py"))
    found = {cache.source_digest.__wrapped__()}
    for name in ("engine/lowering/heads.py", "model/seq2seq.py"):
        (tmp_path / name).write_text("other")
        found.add(cache.source_digest.__wrapped__())
    assert len(found) == 3


@pytest.mark.parametrize("damage", ["cut", "empty", "byte", "appended", "foreign", "text"])
def test_a_damaged_entry_is_rebuilt(cache_folder: Path, model: Path, tmp_path: Path, damage: str) -> None:
    expected = translate(load(model))
    entry = entry_of(cache_folder)
    content = entry.read_bytes()
    if damage == "foreign":  # a valid entry of another model under this one's name
        save(small("transformer"), tmp_path / "other")
        load(tmp_path / "other")
        (other,) = set(cache_folder.glob("*.program")) - {entry}
        other.replace(entry)
    else:
        flipped = bytes([*content[:-9], content[-9] ^ 1, *content[-8:]])
        broken = {"cut": content[:-100], "empty": b"", "byte": flipped, "appended": content + b"\0" * 4, "text": b"no"}
        entry.write_bytes(broken[damage])
    translator = load(model)
    assert not is_hit(translator)
    assert translate(translator) == expected
    assert entry.read_bytes() == content
    assert is_hit(load(model))


def test_weights_without_a_digest_are_not_cached(cache_folder: Path, model: Path) -> None:
    config = read_config_file(model / "config.json")
    (model / "config.json").write_text(json.dumps({**config, "sha256": {}}))
    assert translate(load(model)) == translate(load(model))
    assert list(cache_folder.iterdir()) == []


def test_concurrent_loading(cache_folder: Path, model: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: translate(load(model)), range(4)))
    assert all(each == found[0] for each in found)
    assert is_hit(load(model))
    assert {path.name for path in cache_folder.iterdir()} == {entry_of(cache_folder).name, "lock"}


def test_two_processes_write_the_same_entry(cache_folder: Path, model: Path) -> None:
    engine = load(model).backend.engine
    entry = entry_of(cache_folder)
    child = os.fork()
    for _ in range(20):
        cache.write_entry(entry, engine, [])
        if child and cache.read_entry(entry) is None:
            os.kill(child, 9)
            pytest.fail("an entry was there in part")
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("trouble", ["no place", "full", "lock"])
def test_an_unwritable_cache(cache_folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch, trouble: str) -> None:
    def refuse(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    if trouble == "no place":
        monkeypatch.setattr(cache, "user_cache", lambda _: None)
    else:
        monkeypatch.setattr(cache, "atomic_file" if trouble == "full" else "lock", refuse)
    assert translate(load(model)) == translate(load(model))
    assert list(cache_folder.glob("*.program")) == []


def test_a_read_only_entry_is_used(cache_folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load(model)

    def refuse(*_: Any) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert is_hit(load(model))


def test_the_oldest_entries_are_removed(cache_folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = load(model).backend.engine
    size = entry_of(cache_folder).stat().st_size
    entry_of(cache_folder).unlink()
    (cache_folder / "killed.program.partial").write_bytes(b"half")
    monkeypatch.setattr(cache, "LARGEST", 3 * size + 100)
    for number in range(5):
        path = cache_folder / f"{number}.program"
        cache.write_entry(path, engine, [])
        os.utime(path, (number, number))
        os.utime(cache_folder / "0.program", (99, 99))  # it was used
    assert {path.name for path in cache_folder.iterdir()} == {"0.program", "3.program", "4.program", "lock"}
    monkeypatch.setattr(cache, "LARGEST", size // 2)
    cache.write_entry(cache_folder / "large.program", engine, [])
    assert not (cache_folder / "large.program").exists()


def test_torch_models_are_loaded_lazily(cache_folder: Path, model: Path) -> None:
    first, second = load(model), load(model)
    assert is_hit(second)
    assert str(second.device) == "cpu"
    sources = [[4, 5, 2], [9, 2]]
    assert second.rescore(sources, sources, 1.0) == first.rescore(sources, sources, 1.0)
    weights = [dict(each.models[0].named_parameters()) for each in (first, second)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_models_of_a_replaced_folder_are_rejected(cache_folder: Path, model: Path) -> None:
    load(model)
    translator = load(model)
    save(small("transformer"), model)
    with pytest.raises(DataError, match="was replaced by another model while in use"):
        print(translator.models)


def test_notes_are_cached(cache_folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "int8_ratio", lambda _: 1.25)
    notes = load(model, int8=True).notes
    assert notes == ["int8 takes 1.25× as long here; omit it."]
    monkeypatch.delattr(loading, "int8_ratio")
    assert load(model, int8=True).notes == notes


def test_errors_are_the_same_on_a_hit(cache_folder: Path, tmp_path: Path) -> None:
    broken, copying = small("transformer"), small("pointer-generator")
    with torch.no_grad():
        broken.decoder.layers[0].feed_forward.up_proj.weight.fill_(float("nan"))
    save(broken, tmp_path / "broken")
    save(copying, tmp_path / "copying")
    vocabularies = load(tmp_path / "copying").text
    ids = torch.arange(VOCABULARY, dtype=torch.int32)[:, None].numpy()
    Shortlist(ids, ids[:0, 0], digest_vocabularies(vocabularies)).save(tmp_path / "list")
    for _ in range(2):
        with pytest.raises(DataError, match="scores are not finite; its weights are damaged"):
            load(tmp_path / "broken").translate(LINES)
        with pytest.raises(UsageError, match="copies any token; omit it"):
            load(tmp_path / "copying", shortlist=tmp_path / "list")
    assert is_hit(load(tmp_path / "broken"))
    weights = tmp_path / "copying" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    with pytest.raises(DataError, match="damaged"):
        load(tmp_path / "copying")


# without torch


def test_threads_before_and_after_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert threads.thread_count() == 5
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert 1 <= threads.thread_count() <= (os.cpu_count() or 1)
    threads.set_threads(3)
    assert threads.thread_count() == 3
    told: list[int] = []
    imported = SimpleNamespace(set_num_threads=told.append, get_num_threads=lambda: told[-1])
    monkeypatch.setitem(sys.modules, "torch", imported)
    assert (threads.thread_count(), told) == (3, [3])
    imported.set_num_threads(7)
    assert threads.thread_count() == 7


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has CPU affinity")
def test_only_cores_that_the_process_may_use_are_counted() -> None:
    code = (
        "import os; from lamina.base.threads import default_threads, usable_cores\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(default_threads(), usable_cores())"
    )
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1 1\n"


def test_torch_is_imported_only_if_there_may_be_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise AssertionError(name)

    monkeypatch.setattr(devices, "choose_device", refuse)
    assert devices.uses_cpu("cpu")
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(devices, "DRIVERS", ("no-such-driver",))
    assert devices.uses_cpu("auto")
    monkeypatch.setattr(devices, "DRIVERS", ("null",))
    with pytest.raises(AssertionError, match="auto"):
        devices.uses_cpu("auto")
    with pytest.raises(AssertionError, match="cuda"):
        devices.uses_cpu("cuda")
