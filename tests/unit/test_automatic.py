"""Recipes from a system's name: settings by the size of the corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lamina.base.progress import describe_duration, draw_bar
from lamina.recipe.automatic import automatic_recipe, describe_choice, system_name
from lamina.recipe.loader import Source, dump_recipe, load_recipe
from lamina.systems.published import SYSTEMS
from lamina.training.statistics import ANNOUNCED, Pace


def meta(pairs: int) -> dict[str, Any]:
    return {"splits": {"train": {"pairs": pairs, "tokens": {"source": 14 * pairs, "target": 15 * pairs}}}}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("pairs", [1, 29_000, 5_000_000])
def test_every_system_has_a_valid_recipe(system: str, pairs: int) -> None:
    recipe = load_recipe(Source(system, automatic_recipe(system, meta(pairs))), [], (8000, 8000), True)
    assert (recipe.name, recipe.system) == (system, system)


def test_more_text_means_a_larger_model_and_less_dropout() -> None:
    made = [automatic_recipe("msc", meta(pairs)) for pairs in (1_000, 29_000, 150_000, 500_000, 5_000_000)]
    assert [each["model"]["size"] for each in made] == ["tiny", "tiny", "tiny", "small", "base"]
    assert [each["model"]["dropout"] for each in made] == [0.3, 0.3, 0.1, 0.1, 0.1]
    steps = [each["train"]["max_steps"] for each in made]
    assert steps == sorted(steps)
    assert (steps[0], steps[1]) == (1000, 8500)  # 29,000 pairs as in Multi30k, whose published recipe has 8000
    assert all(each["train"]["warmup"] < each["train"]["max_steps"] for each in made)


def test_overrides_apply_and_the_choice_is_described() -> None:
    source = Source("msc", automatic_recipe("msc", meta(29_000)))
    recipe = load_recipe(source, ["train.lr=1e-4", ("train.label_smoothing", 0.0)], (8000, 8000), True)
    assert describe_choice(recipe, 29_000, Path("runs/x")) == (
        "Settings for 29,000 training pairs: size tiny, dropout 0.3, 8,500 steps of 2,048 tokens, lr 0.0001 after "
        "1,062 steps of warm-up, validation every 425 steps. To change them, use keyword arguments or a copy of "
        "runs/x/recipe.yaml."
    )


def test_a_dry_run_names_no_recipe_to_copy() -> None:
    recipe = load_recipe(Source("msc", automatic_recipe("msc", meta(9))), [], (8000, 8000), True)
    assert describe_choice(recipe, 9, None).endswith(
        "validation every 50 steps. To change them, use keyword arguments."
    )


def test_fewer_steps_shrink_warm_up_and_intervals() -> None:
    def chosen(max_steps: object) -> list[int]:
        train = automatic_recipe("msc", meta(29_000), max_steps=max_steps)["train"]
        return [train[key] for key in ("max_steps", "warmup", "save_every", "validate_every")]

    assert chosen(3000) == [3000, 375, 150, 150]
    assert chosen(300) == [300, 37, 50, 50]
    assert chosen(3) == [3, 0, 3, 3]
    for unchanged in (None, 8500, 100_000, "many"):  # a longer run keeps its warm-up, so that it can be resumed
        assert chosen(unchanged) == [8500, 1062, 425, 425]


def test_the_described_size_is_that_of_the_model() -> None:
    for override, described in (("model.size=small", "size small"), ("model.d_model=64", "d_model 64")):
        recipe = load_recipe(Source("msc", automatic_recipe("msc", meta(9))), [override], (8000, 8000), True)
        assert describe_choice(recipe, 9, Path("runs/x")).startswith(f"Settings for 9 training pairs: {described},")


@pytest.mark.parametrize("pairs", [9, 29_000, 500_000, 5_000_000])
@pytest.mark.parametrize("processes", [2, 4, 8])
def test_updates_are_the_same_for_any_number_of_processes(pairs: int, processes: int) -> None:
    one, several = (automatic_recipe("msc", meta(pairs), count)["train"] for count in (1, processes))
    size = several.pop("batch_tokens") * several.pop("accumulate") * processes
    assert size == one.pop("batch_tokens") * one.pop("accumulate")
    assert several == one


def test_the_resolved_recipe_can_be_copied_for_other_data(tmp_path: Path) -> None:
    recipe = load_recipe(Source("surface-fusion", automatic_recipe("surface-fusion", meta(100))), [], (500, 500), True)
    path = tmp_path / "recipe.yaml"
    path.write_text(dump_recipe(recipe), encoding="utf-8")
    assert load_recipe(path, [], (500, 500), True) == recipe
    assert load_recipe(path, [], (900, 900), True).model.target_vocab == 900


def test_a_file_takes_precedence_over_a_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (system_name("msc"), system_name(Path("recipe.yaml"))) == ("msc", None)
    Path("msc").write_text("system: dlcl\n")
    assert system_name("msc") is None


def test_the_remaining_time_is_announced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("lamina.training.statistics.time.perf_counter", lambda: now)
    pace, said = Pace(), []
    for step in range(1, 30):
        now += 2.0 if step > 2 else 60.0  # the first updates are slow and not timed
        said.append(pace.step(1000 - step))
    assert said[ANNOUNCED - 1] == "About 33 min for the 990 steps left."
    assert sum(map(bool, said)) == 1


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (3600, "60 min"), (12_000, "3 h 20 min"), (200_000, "2 d 8 h")],
)
def test_durations(seconds: float, words: str) -> None:
    assert describe_duration(seconds) == words


def test_bars() -> None:
    assert draw_bar(5, 10) == "▓▓▓▓▓▓▓▓▓▓░░░░░░░░░░ 5/10"
    assert (draw_bar(0, None), draw_bar(1200, None)) == ("…", "1,200")
