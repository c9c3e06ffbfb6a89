"""From a request's texts to its results: documents into sentences, sentences through the queue, and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lamina.serving.messages import TranslateRequest
from lamina.serving.options import ServeOptions
from lamina.serving.refusals import Refusal, not_ready, too_large, too_late
from lamina.serving.scheduler import QueuedSentence, Scheduler
from lamina.serving.workers import Supervisor
from lamina.translation.documents import Document, Passage, read_document

Result = dict[str, Any]


@dataclass(frozen=True)
class SentenceJob:
    """A request in progress: its documents, and their sentences in the queue."""

    model: str
    documents: list[Document]
    sentences: list[QueuedSentence]

    def answer(self) -> Result:
        """All results; every sentence must be done."""
        remaining = iter(self.sentences)
        results = []
        for document in self.documents:
            own = [next(remaining) for _ in document.sentences]
            results.append(text_result(document, own))
        return {"model": self.model, "results": results}


class Service:
    """What the routes call."""

    def __init__(self, options: ServeOptions, scheduler: Scheduler, supervisor: Supervisor) -> None:
        self.options, self.scheduler, self.supervisor = options, scheduler, supervisor

    @property
    def models(self) -> list[dict[str, Any]]:
        """Those of `/v1/models`."""
        if not self.supervisor.models:
            raise not_ready()
        return self.supervisor.models

    def find_model(self, name: str | None) -> dict[str, Any]:
        """A model by name; None is the first."""
        for model in self.models:
            if name is None or model["name"] == name:
                return model
        known = ", ".join(model["name"] for model in self.models)
        raise Refusal(404, "unknown_model", f"Unknown model; available: {known}.")

    def check(self, request: TranslateRequest, max_chars: int | None = None) -> None:
        """Bounds that the types of a request do not tell."""
        if len(request.texts) > self.options.max_texts:
            raise too_large("texts per request", self.options.max_texts, len(request.texts))
        for text in (*request.texts, *(request.prefixes or ())):
            check_text(text, max_chars or self.options.max_chars)
        if request.prefixes is not None and len(request.prefixes) != len(request.texts):
            message = f"prefixes: must have one entry per text ({len(request.texts)}), but has {len(request.prefixes)}."
            raise Refusal(422, "invalid", message)

    def submit(self, request: TranslateRequest, max_chars: int | None = None) -> SentenceJob:
        """Queue a request."""
        self.check(request, max_chars)
        model = self.find_model(request.model)
        settings = {"beam": request.beam, "lenpen": request.lenpen}
        beam = request.beam or model["decode"]["beam"]
        if request.nbest > beam:
            if request.beam is not None:
                raise Refusal(422, "invalid", f"nbest: must be at most the beam size {beam}, but is {request.nbest}.")
            settings["beam"] = request.nbest
        given = tuple((name, value) for name, value in settings.items() if value is not None)
        loop = asyncio.get_running_loop()
        documents: list[Document] = []
        sentences: list[QueuedSentence] = []
        for number, text in enumerate(request.texts):
            prefix = request.prefixes[number] if request.prefixes else None
            if prefix:
                document = Document((Passage((text,), ("",)),) if text.strip() else (text,))
            else:
                document = read_document(text, request.format, model["source"])
            documents.append(document)
            sentences += [
                QueuedSentence(
                    sentence, model["name"], given, loop.create_future(), prefix, request.nbest, request.details
                )
                for sentence in document.sentences
            ]
        self.scheduler.submit(sentences)
        return SentenceJob(model["name"], documents, sentences)

    async def finish(self, job: SentenceJob, left: asyncio.Future[Any]) -> Result | None:
        """Wait for a job; nothing if its client has `left`. Whatever ends it early, its sentences are given up."""
        everything = asyncio.gather(*(sentence.future for sentence in job.sentences))
        try:
            await asyncio.wait({everything, left}, timeout=self.options.timeout, return_when=asyncio.FIRST_COMPLETED)
            if everything.done():
                everything.result()
                return job.answer()
            if left.done():
                return None
            raise too_late(self.options.timeout)
        finally:
            self.scheduler.abandon(job.sentences)
            everything.cancel()
            with suppress(asyncio.CancelledError, Refusal):
                await everything

    async def stream(self, job: SentenceJob) -> AsyncIterator[tuple[str, Result]]:
        """A job's sentences as each is done, then everything; the deadline is for the next sentence."""
        places = {sentence.future: place for place, sentence in enumerate(job.sentences)}
        texts = [number for number, document in enumerate(job.documents) for _ in document.sentences]
        pending: set[asyncio.Future[Any]] = set(places)
        try:
            while pending:
                done, pending = await asyncio.wait(
                    pending, timeout=self.options.timeout, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    raise too_late(self.options.timeout)
                for future in sorted(done, key=lambda each: places[each]):
                    place = places[future]
                    result = sentence_result(job.sentences[place])
                    progress = {"text": texts[place], "sentence": place, "sentences": len(places)}
                    yield "sentence", {**progress, "result": result}
            yield "done", job.answer()
        except Refusal as refusal:
            yield "error", {"error": {"code": refusal.code, "message": refusal.message}}
        finally:
            self.scheduler.abandon(job.sentences)
            for future in places:
                if future.done() and not future.cancelled():
                    future.exception()  # retrieved, so that asyncio does not warn


def check_text(text: str, most: int) -> None:
    """Text that can be decoded: not too long, no half of a surrogate pair."""
    if len(text) > most:
        raise too_large("characters per text", most, len(text))
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Refusal(422, "invalid", f"texts: not valid Unicode at character {error.start + 1}.") from None


def sentence_result(sentence: QueuedSentence) -> Result:
    """An entry of `sentences`."""
    found = sentence.future.result()
    result: Result = {
        "source": sentence.text,
        "text": found["text"],
        "score": round(found["score"], 6),
        "log_prob": round(found["log_prob"], 6),
        "nbest": [{"text": each["text"], "score": round(each["score"], 6)} for each in found["nbest"]],
    }
    if "cut" in found:
        result["cut"] = found["cut"]
    return {**result, **found.get("details", {})}


def text_result(document: Document, sentences: Sequence[QueuedSentence]) -> Result:
    """An entry of `results`; the nth candidate of a text consists of its sentences' nth ones."""
    own = [sentence_result(sentence) for sentence in sentences]
    count = max((len(each["nbest"]) for each in own), default=1)
    candidates = []
    for rank in range(count):
        chosen = [each["nbest"][min(rank, len(each["nbest"]) - 1)] for each in own]
        score = sum(each["score"] for each in chosen) / max(1, len(chosen))
        candidates.append({"text": document.render(each["text"] for each in chosen), "score": round(score, 6)})
    return {**candidates[0], "nbest": candidates, "sentences": own}
