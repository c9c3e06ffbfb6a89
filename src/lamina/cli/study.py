"""`lamina study`: train, evaluate and compare systems × seeds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.options import ClusterOptions, OnCluster
from lamina.errors import UsageError


def study(
    file: Annotated[Path, typer.Argument(metavar="STUDY", help="Study file (YAML).")],
    out: Annotated[Path | None, typer.Option("--out", help="Output folder.", show_default="studies/NAME")] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Number of runs to train in parallel.")] = 1,
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, max=1024, help="CPU threads of each run.", show_default="cores / jobs"),
    ] = None,
    cluster: OnCluster = None,
    cluster_options: ClusterOptions = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only the table.")] = False,
) -> None:
    """Train every system with every seed, evaluate the runs, and write a table with spread and significance.

    Stop at any time; rerun the same command to resume.

    [bold]Examples[/bold]

        lamina study study.yaml

        lamina study study.yaml --jobs 2 --threads 4 --out studies/depth

        lamina study study.yaml --cluster slurm --cluster-option slurm_partition=gpu --cluster-option gpus_per_node=1
    """
    from lamina.base.cluster import parse_options
    from lamina.base.threads import default_threads
    from lamina.cli.progress import show_training
    from lamina.cli.tables import print_columns
    from lamina.study.study import read_study, run_study

    if cluster is None and cluster_options:
        raise UsageError("--cluster-option requires --cluster.")
    plan = read_study(file)
    folder = out or Path("studies") / plan.name
    if threads is None and cluster != "slurm":  # a job on Slurm has cores of its own
        threads = max(1, default_threads() // jobs)
    with show_training(quiet) as show:
        options = parse_options(cluster_options or [])
        finding = run_study(plan, file.parent, folder, jobs, threads, show, cluster, options)
    print_columns([finding.head, *finding.texts(finding.rows)])
    print(f"Page: {folder / 'report.html'}", file=sys.stderr)
