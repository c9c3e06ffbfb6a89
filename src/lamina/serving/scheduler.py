"""Which sentences are decoded together, and when.

Sentence k of a request is due k × SPACING after the request arrived, and the worker's threads always take what is due
first: a long document fills whatever time is left, and does not delay short requests. While all threads are busy with
documents, an extra thread takes the short requests.

A thread's share is the number of sentences that are queued or being decoded, divided by the number of threads. A thread
that finds fewer waits only as long as sentences arrive within GATHER of each other: clients that were answered together
send their next requests together. With no more requests than threads, every share is one sentence and no thread waits.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

from lamina.serving.metrics import Metrics
from lamina.serving.options import BATCH_CHARS, BATCH_SENTENCES
from lamina.serving.refusals import Refusal, overloaded, too_large, worker_lost

SPACING = 0.25  # seconds
GATHER = 0.001  # seconds
SHORT = 4  # sentences of a request that counts as short
ATTEMPTS = 2  # workers that may die while they decode a sentence
WINDOW = 3  # batches' worth of waiting sentences to search for similar lengths

Group = tuple[str, tuple[tuple[str, Any], ...], bool, bool]


@dataclass(eq=False)
class QueuedSentence:
    """A sentence of a request, until its result is there."""

    text: str
    model: str
    settings: tuple[tuple[str, Any], ...]
    future: asyncio.Future[dict[str, Any]]
    prefix: str | None = None
    nbest: int = 1
    details: bool = False
    short: bool = True  # whether its request is
    due: float = 0.0
    attempts: int = 0
    alone: bool = False  # after an error in a batch, each of its sentences is tried by itself
    batch: DecodingBatch | None = None

    @property
    def group(self) -> Group:
        """Sentences of one group can be decoded together; those of short requests do not wait for documents'."""
        return (self.model, self.settings, self.alone, self.short)

    def message(self) -> dict[str, Any]:
        """What the worker is told of it."""
        return {"text": self.text, "prefix": self.prefix, "nbest": self.nbest, "details": self.details}


@dataclass(eq=False)
class DecodingBatch:
    """Sentences that a worker is decoding together."""

    number: int
    sentences: list[QueuedSentence]
    document: bool  # whether any of them belongs to a long request
    unwanted_since: float | None = None  # when it was first seen that all its sentences were given up

    def unwanted_for(self, now: float) -> float:
        """Seconds since all its sentences were found to be given up."""
        if not all(sentence.future.done() for sentence in self.sentences):
            return 0.0
        if self.unwanted_since is None:
            self.unwanted_since = now
        return now - self.unwanted_since


class DecodingWorker(Protocol):
    """What the scheduler needs of a worker process."""

    threads: int
    running: dict[int, DecodingBatch]

    def send(self, message: dict[str, Any]) -> None:
        """Hand it a message."""


@dataclass
class Scheduler:
    """The queue of all requests. Belongs to the event loop; nothing here is called from other threads."""

    limit: int
    metrics: Metrics
    clock: Callable[[], float] = time.monotonic
    worker: DecodingWorker | None = None
    groups: dict[Group, list[tuple[float, int, QueuedSentence]]] = field(default_factory=dict)
    waiting: int = 0
    decoding: int = 0
    _numbers: count[int] = field(default_factory=count)
    _gathering: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self.metrics.queue.set_function(lambda: self.waiting)
        self.metrics.decoding.set_function(lambda: self.decoding)

    def submit(self, sentences: Sequence[QueuedSentence]) -> None:
        """Queue a request's sentences, all or none."""
        if len(sentences) > self.limit:
            raise too_large("sentences per request (queue size)", self.limit, len(sentences))
        if self.waiting + self.decoding + len(sentences) > self.limit:
            raise overloaded(self.waiting + self.decoding)
        now = self.clock()
        for place, sentence in enumerate(sentences):
            sentence.due, sentence.short = now + place * SPACING, len(sentences) <= SHORT
            self._enqueue(sentence)
        self.dispatch()

    def abandon(self, sentences: Iterable[QueuedSentence]) -> None:
        """Abandon sentences: they leave the queue, or their batch."""
        stopped: dict[int, list[int]] = {}
        for sentence in sentences:
            if sentence.future.done():
                continue
            sentence.future.cancel()
            self.metrics.sentences.labels(sentence.model, "abandoned").inc()
            if sentence.batch is None:
                self.waiting -= 1  # it is skipped when its turn comes
            else:
                place = sentence.batch.sentences.index(sentence)
                stopped.setdefault(sentence.batch.number, []).append(place)
        for number, places in stopped.items():
            if self.worker is not None and number in self.worker.running:
                self.worker.send({"do": "stop", "id": number, "places": places})
        self._sweep()

    def dispatch(self, gather: bool = True) -> None:
        """Give work to every thread that has none, or let it gather more first."""
        if self._gathering is not None:
            self._gathering.cancel()
        worker = self.worker
        while worker is not None and self.waiting:
            free = worker.threads - len(worker.running)
            overtakes = free == 0 and all(batch.document for batch in worker.running.values())
            group = self._next_group(overtakes) if free > 0 or overtakes else None
            if group is None:
                break
            share = self._share(group, worker) if free > 0 else BATCH_SENTENCES
            if gather and free > 0 and len(self.groups[group]) < share:
                self._gathering = asyncio.get_running_loop().call_later(GATHER, self.dispatch, False)
                break
            taken = self._take(group, share)
            batch = DecodingBatch(next(self._numbers), taken, not taken[0].short)
            for sentence in taken:
                sentence.batch = batch
            worker.running[batch.number] = batch
            self.metrics.batches.observe(len(taken))
            worker.send(
                {
                    "do": "search",
                    "id": batch.number,
                    "document": batch.document,
                    "model": taken[0].model,
                    "settings": dict(taken[0].settings),
                    "sentences": [sentence.message() for sentence in taken],
                }
            )

    def finish(self, worker: DecodingWorker, number: int, answer: dict[str, Any]) -> None:
        """A worker's answer to a batch: a result for each sentence, or an error."""
        batch = worker.running.pop(number, None)
        if batch is None:
            return
        self.decoding -= len(batch.sentences)
        error = answer.get("error")
        translated = tokens = 0
        for place, sentence in enumerate(batch.sentences):
            sentence.batch = None
            if sentence.future.done():
                continue
            if error is None and answer["results"][place] is not None:
                result = answer["results"][place]
                sentence.future.set_result(result)
                translated, tokens = translated + 1, tokens + result["length"]
            elif len(batch.sentences) > 1:
                sentence.alone = True
                self._enqueue(sentence)
            else:
                self._fail(sentence, Refusal(422, "untranslatable", error or "The model found no translation."))
        self.metrics.sentences.labels(batch.sentences[0].model, "translated").inc(translated)
        self.metrics.tokens.labels(batch.sentences[0].model).inc(tokens)
        self.dispatch()

    def lose(self, worker: DecodingWorker) -> None:
        """A worker died: what it decoded is tried once more by the next one."""
        for number in list(worker.running):
            batch = worker.running.pop(number)
            self.decoding -= len(batch.sentences)
            for sentence in batch.sentences:
                sentence.batch, sentence.attempts, sentence.alone = None, sentence.attempts + 1, True
                if sentence.future.done():
                    continue
                if sentence.attempts < ATTEMPTS:
                    self._enqueue(sentence)
                else:
                    self._fail(sentence, worker_lost())
        self.dispatch()

    def _share(self, group: Group, worker: DecodingWorker) -> int:
        """Sentences of a group for one thread, so that all have equally many."""
        if group[2]:
            return 1
        running = (batch.sentences for batch in worker.running.values() if batch.sentences[0].group == group)
        return min(BATCH_SENTENCES, math.ceil((len(self.groups[group]) + sum(map(len, running))) / worker.threads))

    def _take(self, group: Group, most: int) -> list[QueuedSentence]:
        """What is due first in a group, and others of similar lengths."""
        queue = self.groups[group]
        first = heapq.heappop(queue)
        near: list[tuple[float, int, QueuedSentence]] = []
        while queue and len(near) < WINDOW * most:
            entry = heapq.heappop(queue)
            if not entry[2].future.done():
                near.append(entry)
        near.sort(key=lambda entry: abs(len(entry[2].text) - len(first[2].text)))
        taken, characters = [first[2]], len(first[2].text)
        for entry in near:
            if len(taken) < most and characters + len(entry[2].text) <= BATCH_CHARS:
                taken.append(entry[2])
                characters += len(entry[2].text)
            else:
                heapq.heappush(queue, entry)
        if not queue:
            del self.groups[group]
        self.waiting -= len(taken)
        self.decoding += len(taken)
        return taken

    def _next_group(self, short_only: bool = False) -> Group | None:
        """The group of the sentence that is due first; abandoned sentences are dropped on the way."""
        best: Group | None = None
        for group, queue in list(self.groups.items()):
            while queue and queue[0][2].future.done():
                heapq.heappop(queue)
            if not queue:
                del self.groups[group]
            elif (group[3] or not short_only) and (best is None or queue[0][0] < self.groups[best][0][0]):
                best = group
        return best

    def _sweep(self) -> None:
        """Forget abandoned sentences before they outnumber those that wait."""
        for group, queue in list(self.groups.items()):
            if len(queue) > 64 and len(queue) > 2 * self.waiting:
                kept = [entry for entry in queue if not entry[2].future.done()]
                heapq.heapify(kept)
                self.groups[group] = kept

    def _enqueue(self, sentence: QueuedSentence) -> None:
        heapq.heappush(self.groups.setdefault(sentence.group, []), (sentence.due, next(self._numbers), sentence))
        self.waiting += 1

    def _fail(self, sentence: QueuedSentence, refusal: Refusal) -> None:
        sentence.future.set_exception(refusal)
        self.metrics.sentences.labels(sentence.model, "refused").inc()
