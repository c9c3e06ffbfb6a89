"""Worker processes: started, replaced when they die or models are reloaded, and stopped with the server."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from lamina.errors import LaminaError
from lamina.serving.metrics import Metrics
from lamina.serving.options import ServeOptions
from lamina.serving.refusals import Refusal, not_ready
from lamina.serving.scheduler import DecodingBatch, Scheduler

LINE_BYTES = 2**28
HANGING = 10.0  # seconds, or the timeout if that is longer, that a batch may take to end after it was given up
PAUSES = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)  # seconds before a worker is replaced, when several die in a row

log = logging.getLogger("lamina.serve")


class LoadingError(LaminaError):
    """The models cannot be loaded."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(eq=False)
class WorkerProcess:
    """One process that decodes; messages are lines of JSON."""

    process: asyncio.subprocess.Process
    threads: int = 0
    models: list[dict[str, Any]] = field(default_factory=list)
    running: dict[int, DecodingBatch] = field(default_factory=dict)
    questions: dict[int, asyncio.Future[Any]] = field(default_factory=dict)
    leaving: bool = False

    @classmethod
    async def start(cls, options: ServeOptions) -> WorkerProcess:
        """A process that has its models loaded and warm."""
        arguments = {
            "models": [[name, str(path)] for name, path in options.models.items()],
            "int8": options.int8,
            "threads": options.threads,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, *options.worker, json.dumps(arguments),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LINE_BYTES, start_new_session=True,
        )  # fmt: skip
        worker = cls(process)
        try:
            first = await worker.read()
        except asyncio.CancelledError:
            process.kill()
            raise
        if first is None or "failed" in first:
            await process.wait()
            answer = first or {"failed": "the worker process exited while loading the models.", "exit_code": 1}
            raise LoadingError(answer["failed"], answer["exit_code"])
        worker.threads, worker.models = first["threads"], first["models"]
        return worker

    async def read(self) -> dict[str, Any] | None:
        """The next message; nothing once it has ended."""
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; a process that has ended is noticed when its output is read."""
        assert self.process.stdin is not None
        if not self.process.stdin.is_closing():
            self.process.stdin.write(json.dumps(message).encode("ascii") + b"\n")

    def leave(self) -> None:
        """Let it exit once it is idle."""
        self.leaving = True
        if not self.running and self.process.stdin is not None:
            self.process.stdin.close()


class Supervisor:
    """Keeps one worker ready."""

    def __init__(self, options: ServeOptions, scheduler: Scheduler, metrics: Metrics) -> None:
        self.options, self.scheduler, self.metrics = options, scheduler, metrics
        self.current: WorkerProcess | None = None
        self.models: list[dict[str, Any]] = []
        self.stopping = False
        self._listeners: set[asyncio.Task[None]] = set()
        self._reloading = asyncio.Lock()
        self._question = 0

    async def start(self) -> None:
        """The first worker; every later one replaces it."""
        async with self._reloading:
            self._adopt(await WorkerProcess.start(self.options))

    async def reload(self) -> None:
        """Load the models again in another process; requests go to the old one until that is ready."""
        async with self._reloading:
            worker = await WorkerProcess.start(self.options)
            before = self.current
            self._adopt(worker)
            if before is not None:
                before.leave()
        log.info("models reloaded")

    async def ask(self, message: dict[str, Any]) -> Any:
        """Send a request other than a search."""
        worker = self.current
        if worker is None:
            raise not_ready()
        self._question += 1
        number = -self._question
        future = worker.questions[number] = asyncio.get_running_loop().create_future()
        try:
            worker.send({**message, "id": number})
            return await future
        finally:
            worker.questions.pop(number, None)

    async def stop(self) -> None:
        """End all workers."""
        self.stopping = True
        self.scheduler.worker = None
        if self.current is not None:
            self.current.leave()
            try:
                await asyncio.wait_for(self.current.process.wait(), 5)
            except TimeoutError:
                self.current.process.kill()
                await self.current.process.wait()
        for listener in list(self._listeners):
            listener.cancel()

    def _adopt(self, worker: WorkerProcess) -> None:
        self.metrics.workers.inc()
        self.current, self.scheduler.worker, self.models = worker, worker, worker.models
        self.metrics.ready.set(1)
        for work in (self._listen(worker), self._watch(worker)):
            task = asyncio.create_task(work)
            self._listeners.add(task)
            task.add_done_callback(self._listeners.discard)
        self.scheduler.dispatch()

    async def _listen(self, worker: WorkerProcess) -> None:
        while (answer := await worker.read()) is not None:
            number = answer["id"]
            if number >= 0:
                self.scheduler.finish(worker, number, answer)
            elif (future := worker.questions.get(number)) is not None and not future.done():
                future.set_result(answer)
            if worker.leaving:
                worker.leave()
        code = await worker.process.wait()
        for future in worker.questions.values():
            if not future.done():
                future.set_exception(Refusal(503, "worker_lost", "The worker was replaced; try again.", 1))
        if worker is self.current and not self.stopping:
            log.error("worker %d exited with code %d; starting a new one", worker.process.pid, code)
            self.current, self.scheduler.worker = None, None
            self.metrics.ready.set(0)
        self.scheduler.lose(worker)
        if self.current is None and not self.stopping:
            await self._replace()

    async def _watch(self, worker: WorkerProcess) -> None:
        """Kill a worker that hangs: its batches end soon after their sentences were given up, or never."""
        patience = max(HANGING, self.options.timeout)
        while worker.process.returncode is None:
            await asyncio.sleep(1)
            now = time.monotonic()
            if any(batch.unwanted_for(now) > patience for batch in worker.running.values()):
                log.error("worker %d is not responding; killing it", worker.process.pid)
                worker.process.kill()
                return

    async def _replace(self) -> None:
        for attempt in range(1_000_000):
            await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
            if self.stopping or self.current is not None:
                return
            try:
                async with self._reloading:
                    if self.current is None:
                        self._adopt(await WorkerProcess.start(self.options))
                return
            except LoadingError as error:
                log.error("could not start a new worker: %s", error)
