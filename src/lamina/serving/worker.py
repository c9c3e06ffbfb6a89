"""The worker process: `python -m lamina.serving.worker ARGUMENTS`. Lines of JSON in, lines of JSON out."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lamina.base.processes import end_with_parent
from lamina.errors import LaminaError
from lamina.recipe.decode import SearchSettings
from lamina.search.hypothesis import Hypothesis
from lamina.serving.details import describe_sentence
from lamina.serving.model_info import describe_model, detect_language
from lamina.translation.backends import EngineBackend, SourceBatch
from lamina.translation.batches import is_blank
from lamina.translation.loading import load
from lamina.translation.translator import Translator

WARM_UP = ["A dog runs.", "two"]
GIVE_WAY = 5  # niceness of threads that decode documents


@dataclass
class WorkerState:
    """The models, and what is being decoded."""

    translators: dict[str, Translator]
    stops: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    output: Any = None
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _torch: threading.Lock = field(default_factory=threading.Lock)  # records attention in the modules themselves

    def write(self, message: dict[str, Any]) -> None:
        """One line, whichever thread it comes from."""
        line = json.dumps(message).encode("ascii") + b"\n"
        with self._writing:
            self.output.write(line)
            self.output.flush()

    def search(self, message: dict[str, Any]) -> None:
        """Decode a batch and answer."""
        number = message["id"]
        try:
            results = self.translate(message, self.stops[number])
            self.write({"id": number, "results": results})
        except LaminaError as error:
            self.write({"id": number, "error": str(error)})
        except Exception as error:
            print(f"lamina: worker: unexpected {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self.write({"id": number, "error": "The sentence could not be translated."})
        finally:
            self.stops.pop(number, None)

    def translate(self, message: dict[str, Any], stop: NDArray[np.int64]) -> list[dict[str, Any] | None]:
        """A result for each sentence; None for one that left the batch."""
        translator, asked = self.translators[message["model"]], message["sentences"]
        settings = translator.settings.with_options(**message["settings"])
        sources, cuts = translator.encode([each["text"] for each in asked])
        heads = [translator.text.target.encode([each["prefix"]])[0][:-1] if each["prefix"] else [] for each in asked]
        real = [place for place, source in enumerate(sources) if not is_blank(source)]
        flags = stop if len(real) == len(asked) else np.zeros(len(real), np.int64)
        found = self.decode(translator, [sources[p] for p in real], settings, [heads[p] for p in real], flags)
        results: list[dict[str, Any] | None] = [blank() for _ in asked]
        for place, hypotheses in zip(real, found, strict=True):
            if not hypotheses or stop[place]:
                results[place] = None
                continue
            results[place] = self.describe(translator, sources[place], hypotheses, asked[place], cuts[place])
        return results

    def decode(
        self,
        translator: Translator,
        sources: list[list[int]],
        settings: SearchSettings,
        heads: list[list[int]],
        stop: NDArray[np.int64],
    ) -> list[list[Hypothesis]]:
        """Beam search of one batch in this thread."""
        prefixes = heads if any(heads) else None
        if not sources:
            return []
        if isinstance(translator.backend, EngineBackend):
            return translator.backend.engine.search(sources, settings, prefixes, stop)
        with self._torch:
            (found,) = translator.backend.search([SourceBatch(sources, prefixes)], settings)
        return found

    def describe(
        self, translator: Translator, source: list[int], hypotheses: list[Hypothesis], asked: dict[str, Any], cut: int
    ) -> dict[str, Any]:
        """The message to the front end about a sentence."""
        target = translator.text.target
        each = [
            {"text": target.decode(one.tokens).replace("\n", " "), "score": one.score, "log_prob": one.log_prob}
            for one in hypotheses[: asked["nbest"]]
        ]
        result: dict[str, Any] = {**each[0], "nbest": each, "length": len(hypotheses[0].tokens)}
        if cut:
            result["cut"] = cut
        if asked["details"]:
            with self._torch:
                result["details"] = describe_sentence(translator, source, hypotheses[0].tokens)
        return result


def blank() -> dict[str, Any]:
    """The translation of nothing."""
    one = {"text": "", "score": 0.0, "log_prob": 0.0}
    return {**one, "nbest": [one], "length": 0}


def serve(state: WorkerState, threads: int, messages: Any) -> None:
    """Answer messages until there are no more; threads for documents give way to those for short requests."""
    with (
        ThreadPoolExecutor(threads + 1, thread_name_prefix="lamina-short") as short,
        ThreadPoolExecutor(threads, thread_name_prefix="lamina-document", initializer=give_way) as documents,
    ):
        for line in messages:
            message = json.loads(line)
            number = message["id"]
            if message["do"] == "search":
                state.stops[number] = np.zeros(len(message["sentences"]), np.int64)
                (documents if message["document"] else short).submit(state.search, message)
            elif message["do"] == "stop":
                flags = state.stops.get(number)
                if flags is not None:
                    flags[message["places"]] = 1
            elif message["do"] == "detect":
                state.write({"id": number, "languages": detect_language(state.translators, message["text"])})


def give_way() -> None:
    """Lower this thread's priority, where threads have their own."""
    if sys.platform == "linux":
        own = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, own, min(19, os.getpriority(os.PRIO_PROCESS, own) + GIVE_WAY))


def main(make_state: Callable[..., WorkerState] = WorkerState) -> None:
    """Load, warm up, say so, serve."""
    end_with_parent("SIGKILL")
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # the front says when to stop
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that prints do not mix with the messages
    arguments = json.loads(sys.argv[1])
    state = make_state({}, output=output)
    try:
        for name, path in arguments["models"]:
            translator = load(path, int8=arguments["int8"], threads=arguments["threads"])
            for note in translator.notes:
                print(f"lamina: {name}: {note}", file=sys.stderr)
            translator.translate(WARM_UP)
            state.translators[name] = translator
        models = [describe_model(name, translator) for name, translator in state.translators.items()]
    except LaminaError as error:
        state.write({"failed": str(error), "exit_code": error.exit_code})
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # details are small; the cores belong to the engine's threads
    state.write({"models": models, "threads": threads})
    serve(state, threads, sys.stdin.buffer)


if __name__ == "__main__":
    main()
