"""Search: what it finds, what it must not depend on, and what it may not write."""

from __future__ import annotations

import copy
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import torch

from lamina.errors import LaminaError, UsageError
from lamina.search.beam import beam_search
from lamina.search.candidates import best_candidates
from lamina.search.ensemble import EnsembleStepper
from lamina.search.int8 import quantise, step_ratio
from lamina.search.products import prepare_for_decoding
from lamina.search.sampling import SamplingSettings, sample
from lamina.search.settings import Hypothesis, SearchSettings
from lamina.search.stepper import ModelStepper, Stepper
from lamina.search.workers import CoreWorkers
from lamina.systems import SYSTEMS
from lamina.text.vocabulary import PAD
from support import VARIANTS, Variant, build_combination, make_batch, pad, rows_of, small

GREEDY = SamplingSettings(temperature=0)
SHORT = SearchSettings(beam=4, max_length=(1.0, 3))
Found = list[list[Hypothesis]]


def search(stepper: Stepper, source_BS: torch.Tensor, settings: SearchSettings, **own: object) -> Found:
    with torch.inference_mode():
        return beam_search(stepper, source_BS, settings, 0, **own)


def draw(stepper: Stepper, source_BS: torch.Tensor, settings: SearchSettings, how: SamplingSettings) -> Found:
    with torch.inference_mode():
        return sample(stepper, source_BS, settings, how, 0, torch.Generator().manual_seed(how.seed))


def texts(found: Found) -> list[list[list[int]]]:
    return [[hypothesis.tokens for hypothesis in each] for each in found]


def assert_same(found: Found, expected: Found) -> None:
    assert texts(found) == texts(expected)
    for some, others in zip(found, expected, strict=True):
        assert [one.score for one in some] == pytest.approx([other.score for other in others], abs=1e-4)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_is_searched_and_scores_are_the_models_own(system: str) -> None:
    model, source_BS = small(system), make_batch().source_BS
    found = search(ModelStepper(model), source_BS, SHORT)
    for source, hypotheses in zip(rows_of(source_BS), found, strict=True):
        assert len(hypotheses) == 4
        assert [each.score for each in hypotheses] == sorted((each.score for each in hypotheses), reverse=True)
        assert len({tuple(each.tokens) for each in hypotheses}) == 4
        for each in hypotheses:
            assert each.tokens[-1] == 2
            assert 2 <= len(each.tokens) <= len(source) + 3 + 1
            prefix = torch.tensor([[0, *each.tokens[:-1]]])
            with torch.no_grad():
                log_probs = model.log_probs(torch.tensor([source]), prefix)[0]
            expected = float(log_probs.gather(1, torch.tensor(each.tokens)[:, None]).sum())
            assert each.log_prob == pytest.approx(expected, abs=1e-4)
            assert each.score == pytest.approx(expected / len(each.tokens), abs=1e-4)


@pytest.mark.parametrize("system", ["transformer", "msc-surface", "average-attention", "coordination"])
def test_a_beam_of_one_is_greedy(system: str) -> None:
    stepper, source_BS = ModelStepper(small(system)), make_batch().source_BS
    one = SearchSettings(beam=1, max_length=(1.0, 5))
    assert_same(search(stepper, source_BS, one), draw(stepper, source_BS, one, GREEDY))


@pytest.mark.parametrize("system", ["transformer", "msc-surface", "average-attention", "coordination"])
def test_batch_and_padding_change_nothing(system: str) -> None:
    stepper, source_BS = ModelStepper(small(system)), make_batch((5, 2, 7, 3, 6, 4, 9, 2)).source_BS
    together = search(stepper, source_BS, SHORT)
    alone = [search(stepper, torch.tensor([row]), SHORT)[0] for row in rows_of(source_BS)]
    assert_same(together, alone)
    assert_same(search(stepper, pad(rows_of(source_BS), left=True, extra=2), SHORT), together)


@pytest.mark.slow
def test_a_wide_beam_finds_the_best_of_all() -> None:
    """Every text of up to two tokens, enumerated."""
    model, source_BS = small(), make_batch().source_BS[:1]
    words = [token for token in range(23) if token not in (1, 2)]
    every = [[*text, 2] for length in (1, 2) for text in product(words, repeat=length)]
    scores = {}
    with torch.no_grad():
        for tokens in every:
            log_probs = model.log_probs(source_BS, torch.tensor([[0, *tokens[:-1]]]))[0]
            scores[tuple(tokens)] = float(log_probs.gather(1, torch.tensor(tokens)[:, None]).sum()) / len(tokens)
    best = sorted(scores, key=scores.__getitem__, reverse=True)[:3]
    wide = SearchSettings(beam=len(words) ** 2 + len(words), max_length=(0.0, 2))
    (found,) = search(ModelStepper(model), source_BS, wide)
    assert [tuple(each.tokens) for each in found[:3]] == best


def test_a_prefix_is_respected() -> None:
    stepper, source_BS = ModelStepper(small()), make_batch().source_BS
    found = search(stepper, source_BS, SHORT, prefixes=[[7, 8], [], [9]])
    assert all(each.tokens[:2] == [7, 8] for each in found[0])
    assert all(each.tokens[:1] == [9] for each in found[2])
    assert texts(found)[1] == texts(search(stepper, source_BS, SHORT))[1]


def test_a_prefix_may_be_longer_than_the_limit() -> None:
    found = search(
        ModelStepper(small()), make_batch().source_BS[:1], SearchSettings(max_length=(0.0, 1)), prefixes=[[7, 8, 9]]
    )
    assert [each.tokens for each in found[0]] == [[7, 8, 9, 2]]


def test_lengths_are_kept() -> None:
    stepper, source_BS = ModelStepper(small()), make_batch().source_BS
    found = search(stepper, source_BS, SearchSettings(beam=3, min_length=4, max_length=(0.0, 4)))
    assert all(len(each.tokens) == 5 for hypotheses in found for each in hypotheses)


def test_no_ngram_comes_twice() -> None:
    stepper, source_BS = ModelStepper(small()), make_batch().source_BS
    long = {"beam": 3, "min_length": 12, "max_length": (0.0, 12)}

    def repeats(found: Found) -> bool:
        pairs = [list(zip(each.tokens, each.tokens[1:], strict=False)) for group in found for each in group]
        return any(len(set(each)) < len(each) for each in pairs)

    assert repeats(search(stepper, source_BS, SearchSettings(**long)))
    assert not repeats(search(stepper, source_BS, SearchSettings(**long, no_repeat_ngram=2)))


def test_diverse_groups_differ_and_without_a_penalty_are_equal() -> None:
    stepper, source_BS = ModelStepper(small()), make_batch().source_BS
    alone = search(stepper, source_BS, SearchSettings(beam=2, max_length=(0.0, 4)))
    free = search(stepper, source_BS, SearchSettings(beam=4, groups=2, diversity=0.0, max_length=(0.0, 4)))
    for group, hypotheses in zip(alone, free, strict=True):
        assert sorted(texts([hypotheses])[0]) == sorted(texts([group, group])[0] + texts([group, group])[1])
    apart = search(stepper, source_BS, SearchSettings(beam=4, groups=4, diversity=100.0, max_length=(0.0, 4)))
    assert all(len({each.tokens[0] for each in hypotheses}) == 4 for hypotheses in apart)


def test_an_ensemble_of_one_model_is_the_model() -> None:
    one, source_BS = ModelStepper(small("surface-fusion")), make_batch().source_BS
    assert_same(search(EnsembleStepper([one, one, one]), source_BS, SHORT), search(one, source_BS, SHORT))


def test_an_ensemble_averages_probabilities() -> None:
    first, second = small("transformer"), small("transformer-post")
    source_BS = make_batch().source_BS
    with torch.no_grad():
        steppers = [ModelStepper(first), ModelStepper(second)]
        tokens_R = torch.zeros(3, dtype=torch.long)
        together = EnsembleStepper(steppers)
        found, _ = together.step(tokens_R, together.start(source_BS, 1))
        each = [model.log_probs(source_BS, tokens_R[:, None]).exp() for model in (first, second)]
    torch.testing.assert_close(found.full().exp(), (each[0] + each[1]) / 2)


@pytest.mark.slow
def test_samples_follow_the_distribution() -> None:
    model, source_BS = small(), make_batch().source_BS[:1].repeat(100, 1)
    many = SearchSettings(beam=200, max_length=(0.0, 1))
    with torch.no_grad():
        probs = model.log_probs(source_BS[:1], torch.tensor([[0]]))[0, 0].exp()
    probs[[1, 2]] = 0  # no padding, and no end below the minimum length

    def frequencies(how: SamplingSettings) -> torch.Tensor:
        found = draw(ModelStepper(model), source_BS, many, how)
        tokens = [each.tokens[0] for hypotheses in found for each in hypotheses]
        counts = torch.bincount(torch.tensor(tokens), minlength=23)
        return counts / counts.sum()

    torch.testing.assert_close(frequencies(SamplingSettings()), probs / probs.sum(), atol=0.015, rtol=0)
    sharp = probs.sqrt().square().square()
    torch.testing.assert_close(frequencies(SamplingSettings(temperature=0.5)), sharp / sharp.sum(), atol=0.015, rtol=0)
    assert int((frequencies(SamplingSettings(top_k=3)) > 0).sum()) == 3
    kept = (probs / probs.sum()).sort(descending=True).values.cumsum(0)
    expected = int((kept < 0.5).sum()) + 1
    assert int((frequencies(SamplingSettings(top_p=0.5)) > 0).sum()) == expected
    again = [draw(ModelStepper(model), source_BS, SHORT, SamplingSettings(seed=seed)) for seed in (4, 4, 5)]
    assert texts(again[0]) == texts(again[1]) != texts(again[2])


def test_scores_that_are_not_numbers_never_win() -> None:
    model, source_BS = small(), make_batch().source_BS[:1]
    with torch.no_grad():
        model.head.weight_VD[9] = math.nan
    found = search(ModelStepper(model), source_BS, SHORT)
    assert all(math.isnan(each.score) is False for each in found[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["by our loop", "by torch"])
@pytest.mark.parametrize("vocabulary", [4, 70, 1000, 9712])
@pytest.mark.parametrize("count", [1, 10])
def test_the_best_candidates_are_found_in_order(vocabulary: int, count: int, dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(vocabulary)
    scores, total = torch.randn(3, 2, vocabulary, generator=draw), torch.randn(3, 2, generator=draw)
    scores[0, 0, -3:] = 9.0 + torch.arange(3)  # in the rest after the last whole chunk
    scores = scores.to(dtype)
    normaliser = scores.logsumexp(dim=2, keepdim=True)
    found = best_candidates(total.numpy(), scores, normaliser, count)
    possible = min(count, 2 * vocabulary)
    expected = (scores + (total[..., None] - normaliser)).flatten(1).topk(possible, dim=1)
    assert found.total_BN[:, :possible] == pytest.approx(expected.values.numpy(), abs=1e-6)
    places = found.row_BN * vocabulary + found.token_BN
    assert places[:, :possible].tolist() == expected.indices.tolist()
    assert (found.total_BN[:, possible:] == -math.inf).all()


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("few", [0, 1000], ids=["many rows", "few rows"])
def test_quick_steps_write_the_same_texts(system: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lamina.search.products.FEW", few)
    source_BS = make_batch().source_BS
    expected = search(ModelStepper(small(system)), source_BS, SHORT)
    quick = prepare_for_decoding(small(system))
    assert_same(search(ModelStepper(quick), source_BS, SHORT), expected)
    assert (quick.decoder.layers[0].quick is None) == (quick.config.decoder.attention != "self")


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_quick_steps_of_every_variant(variant: Variant) -> None:
    plain, source_BS = build_combination(variant), make_batch().source_BS
    expected = search(ModelStepper(plain), source_BS, SHORT)
    assert_same(search(ModelStepper(prepare_for_decoding(copy.deepcopy(plain))), source_BS, SHORT), expected)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_quick_encoder_layers_give_the_same_states(system: str, side: str) -> None:
    plain, quick = small(system), prepare_for_decoding(small(system))
    assert all(layer.quick is not None for layer in quick.encoder.layers)
    source_BS = make_batch().source_BS
    if side == "left":
        source_BS = torch.stack([row.roll(int((row == PAD).sum())) for row in source_BS])
    real_BS = source_BS != PAD
    assert not bool(real_BS.all())
    with torch.no_grad():
        expected, found = plain.encode(source_BS), quick.encode(source_BS)
    for ours, theirs in zip(found.layers + found.contexts, expected.layers + expected.contexts, strict=True):
        torch.testing.assert_close(ours[real_BS], theirs[real_BS], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("system", SYSTEMS)
def test_attention_is_that_of_the_target_to_the_source(system: str) -> None:
    model, batch = small(system), make_batch()
    (batch_size, length), written = batch.source_BS.shape, batch.prefix_BT.shape[1]
    with torch.no_grad():
        layers = model.attention(batch.source_BS, batch.prefix_BT)
    shapes = {stream.shape for streams in layers for stream in streams}
    assert shapes == {(batch_size, model.config.heads, written, length)}


def test_a_model_that_is_ready_to_decode_still_has_gradients_and_takes_nothing() -> None:
    plain, ready = small("surface-fusion"), prepare_for_decoding(small("surface-fusion"))
    batch = make_batch()
    gradients = []
    for model in (plain, ready):
        model.log_probs(batch.source_BS, batch.prefix_BT).sum().backward()
        gradients.append(model.target_embedding.tokens.weight.grad)
    torch.testing.assert_close(gradients[0], gradients[1])
    with torch.no_grad():
        assert ready.log_probs(batch.source_BS[:0], batch.prefix_BT[:0]).shape[0] == 0


def test_a_step_in_eight_bits_is_timed_against_one_in_32() -> None:
    model = small()
    assert 0 < step_ratio(model, quantise(model)) < 100


def test_work_on_every_core_comes_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    workers = CoreWorkers(lambda number: (number * number, os.getpid(), torch.ones(2).sum().item()))
    done = [*workers.map(range(10)), *workers.map(range(10, 20))]
    processes = {process for _, process, _ in done}
    assert [result for result, _, _ in done] == [number * number for number in range(20)]
    assert os.getpid() not in processes
    assert len(processes) <= 3  # kept from one call to the next
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert [process for _, process, _ in workers.map([1, 2])] == [os.getpid()] * 2
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert {process for _, process, _ in workers.map([1, 2])}.isdisjoint(processes)
    wait_for(lambda: not any(alive(process) for process in processes))  # another number of threads, other processes


def test_workers_end_with_what_made_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    workers = CoreWorkers(lambda _: os.getpid())
    processes = set(workers.map([1, 2]))
    assert all(alive(process) for process in processes)
    del workers
    wait_for(lambda: not any(alive(process) for process in processes))


def test_there_are_no_more_workers_than_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    workers, before = CoreWorkers(lambda _: os.getpid()), len(multiprocessing.active_children())
    list(workers.map([1, 2]))
    assert len(multiprocessing.active_children()) == before + 2
    list(workers.map(range(4)))
    wait_for(lambda: len(multiprocessing.active_children()) == before + 4)


def test_a_copy_makes_its_own_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    workers = CoreWorkers(lambda _: os.getpid())
    list(workers.map([1, 2]))
    own = {process.pid for process in multiprocessing.active_children()}
    assert own.isdisjoint(copy.deepcopy(workers).map([1, 2]))
    assert set(workers.map([1, 2])) <= own


def test_nothing_is_copied_while_another_thread_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    begun, end = threading.Event(), threading.Event()
    other = CoreWorkers(lambda _: (begun.set(), end.wait(60)))
    thread = threading.Thread(target=lambda: list(other.map([1, 2])))
    thread.start()
    assert begun.wait(60)
    assert set(CoreWorkers(lambda _: os.getpid()).map([1, 2])) == {os.getpid()}
    end.set()
    thread.join()
    assert os.getpid() not in set(CoreWorkers(lambda _: os.getpid()).map([1, 2]))


@pytest.mark.parametrize("daemon", [False, True])
def test_a_process_with_workers_of_its_own_ends(daemon: bool) -> None:
    code = (
        "import multiprocessing, os, torch\n"
        "from lamina.search.workers import CoreWorkers\n"
        "torch.set_num_threads(2)\n"
        "workers = CoreWorkers(lambda _: os.getpid())\n"
        "def target(): print(set(workers.map([1, 2])) == {os.getpid()}, flush=True)\n"
        f"process = multiprocessing.get_context('fork').Process(target=target, daemon={daemon})\n"
        "process.start(); process.join(); print(process.exitcode)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout.split(), ended.stderr) == ([str(daemon), "0"], "")


def test_workers_killed_while_idle_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    workers = CoreWorkers(lambda _: os.getpid())
    processes = set(workers.map([1, 2]))
    for process in processes:
        os.kill(process, signal.SIGKILL)
    wait_for(lambda: not any(alive(process) for process in processes))
    time.sleep(0.5)  # the pool notices
    assert processes.isdisjoint(workers.map([1, 2]))


def test_a_worker_that_is_killed_breaks_one_call_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    workers = CoreWorkers(lambda number: number if number < 9 else os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(LaminaError, match="has been killed, perhaps for lack of memory"):
        list(workers.map([1, 2, 9]))
    assert list(workers.map([3, 4])) == [3, 4]


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, time, torch\n"
        "from lamina.search.workers import CoreWorkers\n"
        "torch.set_num_threads(2)\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "list(CoreWorkers(lambda n: ((folder / str(os.getpid())).touch(), time.sleep(60))).map(range(4)))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as parent:
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        parent.kill()
    workers = [int(path.name) for path in tmp_path.iterdir()]
    wait_for(lambda: not any(alive(worker) for worker in workers))


def wait_for(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.parametrize("system", SYSTEMS)
def test_eight_bits_stay_near(system: str) -> None:
    model, batch = small(system), make_batch()
    expected = model.head.weight_VD.clone()
    with torch.no_grad():
        exact = model.log_probs(batch.source_BS, batch.prefix_BT)
        near = quantise(model).log_probs(batch.source_BS, batch.prefix_BT)
    assert torch.equal(model.head.weight_VD, expected)
    assert not torch.equal(near, exact)
    assert float((near - exact).abs().mean()) < 0.2


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"beam": 0}, "The beam must be at least 1, but is 0 instead."),
        ({"beam": 5, "groups": 2}, "The beam 5 must be a multiple of the 2 groups."),
        ({"min_length": 9, "max_length": (0.0, 3)}, "The maximum length of a short source is below"),
    ],
)
def test_impossible_settings(own: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SearchSettings(**own)


@pytest.mark.parametrize("own", [{"temperature": -1.0}, {"top_p": 0.0}, {"top_k": 0}])
def test_impossible_sampling(own: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(own))):
        SamplingSettings(**own)
