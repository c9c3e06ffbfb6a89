"""`lamina distill`: train a small student on a teacher's translations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lamina.base.wording import counted
from lamina.cli.next_step import say_next
from lamina.cli.options import Device, Int8, Threads
from lamina.errors import UsageError


def distill(
    teachers: Annotated[list[Path], typer.Argument(metavar="TEACHER", help="Run or model; several form an ensemble.")],
    student: Annotated[Path, typer.Option("--student", help="Recipe of the student: file, shipped recipe or system.")],
    source: Annotated[list[Path], typer.Option("--source", help="Text for the teacher to translate; repeatable.")],
    valid: Annotated[tuple[Path, Path], typer.Option("--valid", metavar="SRC TGT", help="Validation pairs.")],
    out: Annotated[Path, typer.Option("--out", help="Run folder of the student.")],
    target: Annotated[
        list[Path] | None, typer.Option("--target", help="References for --source, also used for training; repeatable.")
    ] = None,
    test: Annotated[
        tuple[Path, Path] | None, typer.Option("--test", metavar="SRC TGT", help="Test pairs for the report.")
    ] = None,
    beam: Annotated[int, typer.Option("--beam", min=1, max=256, help="Beam size of the teacher.")] = 5,
    shard: Annotated[
        str,
        typer.Option(
            "--shard",
            metavar="I/N",
            help="Translate only shard I of N, without training.",
            show_default="translate everything and train",
        ),
    ] = "1/1",
    no_mix: Annotated[bool, typer.Option("--no-mix", help="Train the student on the teacher's outputs alone.")] = False,
    no_baseline: Annotated[
        bool, typer.Option("--no-baseline", help="Skip the baseline: the same student trained on the references alone.")
    ] = False,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY.PATH=VALUE", help="Override a recipe value; repeatable.")
    ] = None,
    int8: Int8 = False,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the report.")] = False,
) -> None:
    """Train a small student on the translations of a teacher (sequence-level knowledge distillation).

    The teacher translates the sources; its outputs are filtered and mixed with the references; the student is trained
    and compared with the teacher. If interrupted, rerun the same command to resume. `--shard 1/4` to `--shard 4/4`
    distribute the translation over processes or machines; the same command without `--shard` then trains.

    [bold]Example[/bold]

        lamina distill runs/teacher --student student-12-1 --source train.en --valid dev.en dev.de --out runs/student
    """
    from lamina.cli.progress import show_progress, show_training
    from lamina.cli.tables import print_columns
    from lamina.corpus.reading import TwoFiles
    from lamina.recipe.automatic import system_name
    from lamina.recipe.shipped import find_recipe
    from lamina.store.loading import load_run
    from lamina.study.distillation import (
        Distillation,
        prepare_text,
        train_student,
        translate_sources,
        write_training_text,
    )
    from lamina.translation.shards import InputPart

    part = InputPart.parse(shard)
    if system_name(student) is None:
        find_recipe(student)
    plan = Distillation(
        tuple(teachers),
        student,
        tuple(source),
        tuple(target or ()),
        valid,
        out,
        beam,
        not no_mix,
        tuple(overrides or ()),
    )
    plan.check()
    references = bool(target) and not no_baseline and test is not None
    if references and len(source) > 1:
        raise UsageError("The baseline needs exactly one --source and one --target; skip it with --no-baseline.")
    plan.begin()
    with show_progress(quiet) as progress:
        missing = translate_sources(plan, part, int8, device, threads, progress)
    if missing or part.count > 1:
        state = f"other shards have {counted(missing, 'chunk')} left" if missing else "all shards are complete"
        print(f"{out}: shard {shard} is complete; {state}.")
        return
    text = load_run(teachers[0]).text
    train, counts = write_training_text(plan, text)
    if not quiet:
        print(f"lamina: {', '.join(f'{count:,} {reason}' for reason, count in counts.items())}", file=sys.stderr)
    folder = plan.folder
    with show_training(quiet) as show:
        train_student(plan, prepare_text(plan, train, text, folder / "data"), out, device, threads, show)
        if references:
            data = prepare_text(plan, TwoFiles(plan.sources[0], plan.targets[0]), text, folder / "reference-data")
            train_student(plan, data, folder / "references", device, threads, show)
    if test is not None:
        from lamina.study.distillation_report import compare_students, table_of, write_report

        runs = {"teacher": list(teachers), "student": [out]}
        if references:
            runs["on references"] = [folder / "references"]
        rows = compare_students(runs, test, device, threads)
        write_report(rows, folder)
        print_columns(table_of(rows))
    say_next("lamina", "translate", out, quiet=quiet)
