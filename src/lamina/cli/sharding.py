"""`lamina translate --shard` and `--cluster`: translation of an input in shards, on one or more machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lamina.base.wording import counted
from lamina.errors import UsageError

if TYPE_CHECKING:
    from lamina.base.cluster import Cluster
    from lamina.translation.shards import InputPart


def open_shard(
    shard: str, input_file: Path | None, output: Path | None, form: str, force: bool
) -> tuple[Path, int, Iterator[str]] | None:
    """Return a shard's output file, the number of its first line and its lines; None if it is already finished."""
    from lamina.translation.shards import InputPart, read_shard

    part = InputPart.parse(shard)
    folder, full_input = require_files(input_file, output)
    target = folder / part.name(form)
    if target.exists() and not force:
        print(f"lamina: {target}: already finished.", file=sys.stderr)
        return None
    folder.mkdir(parents=True, exist_ok=True)
    first_line, lines = read_shard(full_input, part, numbered=form != "text")
    return target, first_line, lines


def require_files(input_file: Path | None, output: Path | None) -> tuple[Path, Path]:
    """Return the folder of the shards and the input; raise if one is missing."""
    if input_file is None or output is None:
        raise UsageError("--shard needs --input FILE and --output DIR.")
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output}: is a file; with --shard, --output is a folder.")
    return output, input_file


def make_shards(
    input_file: Path | None, output: Path | None, cluster: str | None, shards: int | None, shard: str | None
) -> list[InputPart]:
    """List the shards of a cluster's jobs, one per job."""
    from lamina.translation.shards import InputPart

    if cluster is None or shards is None or shard is not None:
        raise UsageError("Use --cluster and --shards N together, without --shard, which is for a single shard.")
    require_files(input_file, output)
    return [InputPart(number, shards) for number in range(1, shards + 1)]


def translate_on_cluster(
    input_file: Path | None,
    output: Path | None,
    cluster: Cluster | None,
    options: list[str] | None,
    shards: int | None,
    shard: str | None,
    at_once: int,
    threads: int | None,
    form: str,
    force: bool,
) -> None:
    """Run this command as one job per shard; finished shards are skipped, or deleted first with `force`."""
    from lamina.base.cluster import Job, parse_options, run_jobs
    from lamina.base.threads import default_threads

    parts = make_shards(input_file, output, cluster, shards, shard)
    assert output is not None
    assert cluster is not None
    finished = [path for part in parts if (path := output / part.name(form)).exists()]
    for path in finished if force else ():
        path.unlink()
    if finished and not force:
        reused = f"{len(finished)} of {len(parts)} shards already finished"
        print(f"lamina: {output}: {reused}; --force translates them again.", file=sys.stderr)
    arguments = without_options(sys.argv[1:], ("--cluster", "--shards", "--cluster-option", "--jobs"))
    arguments = [word for word in arguments if word != "--force"]  # so that a job that is retried resumes
    if threads is None and cluster == "local":
        arguments += ["--threads", str(max(1, default_threads() // at_once))]
    jobs = [
        Job(
            f"shard-{part.number}",
            (sys.executable, "-m", "lamina", *arguments, "--shard", str(part), "--quiet"),
            output / f"{part.name(form)}.log",
            output / part.name(form),
        )
        for part in parts
    ]
    run_jobs(jobs, output, cluster, parse_options(options or []), at_once)
    print(f"{counted(len(parts), 'shard')}: cat {output}/{parts[0].pattern(form)} > FILE", file=sys.stderr)


def without_options(words: list[str], names: tuple[str, ...]) -> list[str]:
    """Remove options and their values from a command line."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in names:
            skip = True
        elif word.partition("=")[0] not in names:
            kept.append(word)
    return kept
