"""`lamina distill`: a small student learns what a teacher writes."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.next_step import say_next
from lamina.cli.options import Device, Int8, Threads
from lamina.errors import UsageError


def distill(
    teachers: Annotated[list[Path], typer.Argument(metavar="TEACHER", help="A run or model; several: an ensemble.")],
    student: Annotated[Path, typer.Option("--student", help="The student's recipe: a file or a shipped one's name.")],
    source: Annotated[list[Path], typer.Option("--source", help="Sources for the teacher to translate; repeatable.")],
    valid: Annotated[tuple[Path, Path], typer.Option("--valid", metavar="SRC TGT", help="Validation pairs.")],
    out: Annotated[Path, typer.Option("--out", help="The student's run.")],
    target: Annotated[
        list[Path] | None, typer.Option("--target", help="References of the sources, to mix in; repeatable.")
    ] = None,
    test: Annotated[
        tuple[Path, Path] | None, typer.Option("--test", metavar="SRC TGT", help="Pairs for the report.")
    ] = None,
    beam: Annotated[int, typer.Option("--beam", min=1, max=256, help="The teacher's beam.")] = 5,
    shard: Annotated[str, typer.Option("--shard", metavar="I/N", help="Translate only this part, then stop.")] = "1/1",
    no_baseline: Annotated[
        bool, typer.Option("--no-baseline", help="Do not also train the student on the references alone.")
    ] = False,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY.PATH=VALUE", help="Override the recipe; may be repeated.")
    ] = None,
    int8: Int8 = False,
    device: Device = "auto",
    threads: Threads = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the report only.")] = False,
) -> None:
    """Teach a small student: translate with the teacher, filter, mix with references, train, compare.

    Stop it however you like; the same command resumes. `--shard 1/4` to `--shard 4/4` share the translation out to
    processes or machines; then the same command without `--shard` trains the student.

    [bold]Example[/bold]

        lamina distill runs/teacher --student student-12-1 --source train.en --target train.de --valid dev.en dev.de
            --test test.en test.de --out runs/student
    """
    from lamina.cli.progress import show_progress, show_training
    from lamina.cli.tables import print_columns
    from lamina.corpus.reading import TwoFiles
    from lamina.recipe.shipped import find_recipe
    from lamina.store.loading import load_run
    from lamina.study.distillation import (
        Distillation,
        prepare_text,
        train_student,
        translate_sources,
        write_training_text,
    )

    part = read_shard(shard)
    find_recipe(student)
    plan = Distillation(
        tuple(teachers), student, tuple(source), tuple(target or ()), valid, out, beam, tuple(overrides or ())
    )
    plan.check()
    plan.begin()
    with show_progress(quiet) as progress:
        missing = translate_sources(plan, part, int8, device, threads, progress)
    if missing or part != (1, 1):
        state = f"{missing:,} chunks are left to other shards" if missing else "all shards are done"
        print(f"{out}: shard {shard} is translated; {state}.")
        return
    text = load_run(teachers[0]).text
    languages = (text.source.language, text.target.language)
    counts = write_training_text(plan, languages)
    if not quiet:
        print(f"lamina: {', '.join(f'{count:,} {reason}' for reason, count in counts.items())}", file=sys.stderr)
    folder, cores = plan.folder, threads or os.cpu_count() or 1
    train = TwoFiles(*(folder / "text" / f"train.{language}" for language in languages))
    with show_training(quiet) as show:
        train_student(plan, prepare_text(plan, train, folder / "data"), out, cores, show)
        references = bool(plan.targets) and not no_baseline and test is not None
        if references:
            if len(plan.sources) > 1:
                raise UsageError("The report's baseline needs one --source and one --target; use --no-baseline.")
            data = prepare_text(plan, TwoFiles(plan.sources[0], plan.targets[0]), folder / "reference-data")
            train_student(plan, data, folder / "references", cores, show)
    if test is not None:
        from lamina.study.distillation_report import compare_students, table_of, write_report

        runs = {"teacher": list(teachers), "student": [out]}
        if references:
            runs["on references"] = [folder / "references"]
        rows = compare_students(runs, test, device, threads)
        write_report(rows, folder)
        print_columns(table_of(rows))
    say_next("lamina", "translate", out, "--input", "FILE", quiet=quiet)


def read_shard(given: str) -> tuple[int, int]:
    """`2/4` as two numbers."""
    match = re.fullmatch(r"(\d+)/(\d+)", given)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count:
        raise UsageError(f"--shard must be I/N with I from 1 to N, such as 2/4, but is {given} instead.")
    return number, count
