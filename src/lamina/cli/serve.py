"""`lamina serve`: a REST API and a web page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lamina.cli.options import Int8, Threads
from lamina.errors import DataError, MissingExtraError, UsageError
from lamina.store.hub import is_remote


def serve(
    runs: Annotated[
        list[Path] | None, typer.Argument(metavar="RUN", help="Runs or models; each is named after its folder.")
    ] = None,
    names: Annotated[
        list[str] | None, typer.Option("--name", metavar="NAME=RUN", help="Serve RUN under this name; repeatable.")
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 is all interfaces.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 picks a free one.")] = 8000,
    api_keys: Annotated[
        Path | None, typer.Option("--api-keys", help="File of API keys, one per line: KEY or NAME KEY.")
    ] = None,
    max_chars: Annotated[int, typer.Option("--max-chars", min=1, help="Maximum characters per text.")] = 5000,
    max_texts: Annotated[int, typer.Option("--max-texts", min=1, help="Maximum texts per request.")] = 100,
    queue: Annotated[int, typer.Option("--queue", min=1, help="Maximum sentences queued or being decoded.")] = 1000,
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, help="Timeout of a request, in seconds.")] = 30.0,
    rate: Annotated[
        str | None, typer.Option("--rate", metavar="N/min", help="Maximum requests per key or address.")
    ] = None,
    url_prefix: Annotated[str, typer.Option("--url-prefix", help="Serve under this path, such as /translate.")] = "",
    int8: Int8 = False,
    threads: Threads = None,
    log_text: Annotated[bool, typer.Option("--log-text", help="Log request texts.")] = False,
    ready_file: Annotated[
        Path | None, typer.Option("--ready-file", help="Write the port to this file once the server listens.")
    ] = None,
) -> None:
    """Serve models: a REST API, LibreTranslate's API, and a web page that shows what the model does.

    [bold]Examples[/bold]

        lamina serve runs/first

        lamina serve --name en-de=runs/a --name en-de-fused=runs/b --api-keys keys.txt --rate 60/min
    """
    models = name_models(runs or [], names or [])
    try:
        from lamina.serving.keys import parse_rate
        from lamina.serving.options import ServeOptions
        from lamina.serving.server import run_server
    except ImportError as error:
        raise MissingExtraError("lamina serve", "serve") from error
    prefix = "/" + url_prefix.strip("/") if url_prefix.strip("/") else ""
    options = ServeOptions(
        models=models,
        host=host,
        port=port,
        api_keys=api_keys,
        max_chars=max_chars,
        max_texts=max_texts,
        queue=queue,
        timeout=timeout,
        rate=None if rate is None else parse_rate(rate),
        url_prefix=prefix,
        int8=int8,
        threads=threads,
        log_text=log_text,
        ready_file=ready_file,
    )
    run_server(options)
    sys.stderr.flush()


def name_models(runs: list[Path], names: list[str]) -> dict[str, Path]:
    """Map names to models; raise if names are not unique."""
    models: dict[str, Path] = {}
    given = [(run.resolve().name, run) for run in runs]
    for each in names:
        name, _, path = each.partition("=")
        if not name or not path:
            raise UsageError(f"--name must be NAME=RUN, but is `{each}` instead.")
        given.append((name, Path(path)))
    for name, run in given:
        if name in models:
            raise UsageError(f"Two models are named `{name}`; rename one with --name NAME={run}.")
        if not is_remote(run) and not run.exists():
            raise DataError(f"{run}: not found.")
        models[name] = run
    if not models:
        raise UsageError("RUN is required. Example: lamina serve runs/first")
    return models
