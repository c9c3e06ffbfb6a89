"""`lamina.train`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from typing import Unpack

    from lamina.base.files import StrPath
    from lamina.recipe.options import SearchOptions, TrainOptions
    from lamina.store.run import Run
    from lamina.training.callbacks import Callback


def train(
    recipe: StrPath | Mapping[str, Any],
    data: StrPath,
    out: StrPath | None = None,
    *,
    name: str | None = None,
    model: Mapping[str, Any] | None = None,
    decode: SearchOptions | None = None,
    callbacks: Sequence[Callback] = (),
    init_from: StrPath | None = None,
    grow_from: StrPath | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    threads: int | None = None,
    tensorboard: bool = False,
    progress: bool | None = None,
    **train: Unpack[TrainOptions],
) -> Run:
    """Train a model, like `lamina train`; repeat the call to resume.

    `recipe` is the name of a system, such as `"surface-fusion"` (settings are then chosen by corpus size), the name of
    a shipped recipe, a recipe file, or a mapping with the same keys. `data` is the result of `lamina.prepare`, or its
    folder; `out` is the run folder (default: `runs/NAME`).

    Keyword arguments are the keys of a recipe's `train`, such as `max_steps`, `lr` and `patience` (stop after this many
    validations without improvement); `model` and `decode` are mappings with the keys of those parts. All of them
    override the recipe. `help(lamina.TrainOptions)` and `help(lamina.SearchOptions)` list the keys of `train` and
    `decode`. Progress is shown in terminals and notebooks; `progress=False` hides it, and with
    `progress=True` other scripts print log lines.

    Ctrl-C saves a checkpoint and raises `KeyboardInterrupt`; SIGTERM and SIGUSR1 save one and exit with code 75.

    Example:
        >>> run = lamina.train("transformer", "data", "runs/new", max_steps=4, warmup=2, model={"d_model": 16})
        >>> run
        Run('runs/new', transformer, 4 of 4 steps, best step 4)
        >>> run.recipe.train.max_steps
        4
        >>> lamina.load(run).translate("A dog runs.", max_length=(0, 3))
        Translation('...', score=-...)
    """
    from lamina.base.arguments import as_list
    from lamina.base.progress import is_shown
    from lamina.training.callbacks import check_callbacks
    from lamina.training.reporters import LineReporter
    from lamina.training.signals import stop_the_program
    from lamina.training.start import Start, train_run

    _check(recipe, data, out, model, decode, device, threads, train)
    watchers = check_callbacks(as_list(callbacks))
    parts: dict[str, Mapping[str, Any]] = {"model": model or {}, "decode": decode or {}, "train": train}
    overrides = [(f"{part}.{key}", value) for part, own in parts.items() for key, value in own.items()]
    overrides += [] if name is None else [("name", name)]
    start = Start(init_from, grow_from, device, threads, tensorboard)
    display = LineReporter() if is_shown(progress) else None
    with stop_the_program():
        return train_run(recipe, data, out, overrides, start, display, watchers)


def _check(
    recipe: object,
    data: object,
    out: object,
    model: object,
    decode: object,
    device: object,
    threads: object,
    options: Mapping[str, Any],
) -> None:
    from lamina.base.arguments import DEVICES, check_choice, check_counts, check_mapping, check_options, check_path
    from lamina.recipe.options import TrainOptions

    if not isinstance(recipe, Mapping):
        check_path("recipe", recipe, "the name of a system or recipe, a file or a mapping")
    check_path("data", data, "the result of lamina.prepare, or its folder")
    if out is not None:
        check_path("out", out, "the path of a folder")
    check_options(options, TrainOptions.__annotations__, train)
    check_mapping("model", model, "{'size': 'tiny'}")
    check_mapping("decode", decode, "{'beam': 4}")
    check_choice("device", device, DEVICES)
    check_counts(threads=threads)
