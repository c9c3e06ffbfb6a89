"""Unit tests of the server: queue, keys, rates, forms, words."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import DataError, UsageError
from lamina.serving.forms import read_form
from lamina.serving.keys import KeyRing, RateLimit, key_of_headers, parse_rate
from lamina.serving.metrics import Metrics
from lamina.serving.model_info import detect_language
from lamina.serving.refusals import Refusal
from lamina.serving.scheduler import GATHER, DecodingBatch, QueuedSentence, Scheduler
from lamina.text.pipeline import make_pipeline
from lamina.text.subwords import learn_sentencepiece
from lamina.translation.translator import Translator


class FakeWorker:
    """Records what it is sent."""

    def __init__(self, threads: int = 2) -> None:
        self.threads = threads
        self.running: dict[int, DecodingBatch] = {}
        self.sent: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def texts(self) -> list[list[str]]:
        return [[each["text"] for each in message["sentences"]] for message in self.sent if message["do"] == "search"]


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


def sentences(*texts: str, model: str = "m", **more: Any) -> list[QueuedSentence]:
    loop = asyncio.get_running_loop()
    return [QueuedSentence(text, model, (), loop.create_future(), **more) for text in texts]


def result(text: str) -> dict[str, Any]:
    return {"text": text, "length": 1}


def make(worker: FakeWorker | None, limit: int = 100) -> tuple[Scheduler, list[float]]:
    now = [0.0]
    return Scheduler(limit, Metrics(), clock=lambda: now[0], worker=worker), now


def answer(scheduler: Scheduler, worker: FakeWorker, number: int) -> None:
    batch = worker.running[number]
    scheduler.finish(worker, number, {"results": [result(each.text) for each in batch.sentences]})


@in_loop
async def test_requests_do_not_wait_for_a_full_batch() -> None:
    worker = FakeWorker()
    scheduler, _ = make(worker)
    for text in ("a", "b", "c", "d"):
        scheduler.submit(sentences(text))
    assert worker.texts() == [["a"], ["b"]]
    answer(scheduler, worker, next(iter(worker.running)))
    assert worker.texts()[2:] == [["c", "d"]]


@in_loop
async def test_free_threads_share_a_request() -> None:
    worker = FakeWorker()
    scheduler, _ = make(worker)
    scheduler.submit(sentences("a", "b", "c", "d"))
    assert sorted(map(len, worker.texts())) == [2, 2]


@in_loop
async def test_a_thread_gathers_its_share() -> None:
    worker = FakeWorker()
    scheduler, _ = make(worker)
    scheduler.submit(sentences("a", "b", "c", "d"))
    answer(scheduler, worker, min(worker.running))
    scheduler.submit(sentences("e"))  # the other thread has two
    assert len(worker.texts()) == 2
    scheduler.submit(sentences("f"))
    assert worker.texts()[2:] == [["e", "f"]]


@in_loop
async def test_a_thread_does_not_wait_for_sentences_that_do_not_come() -> None:
    worker = FakeWorker()
    scheduler, _ = make(worker)
    scheduler.submit(sentences("a", "b", "c", "d"))
    answer(scheduler, worker, min(worker.running))
    scheduler.submit(sentences("e"))
    await asyncio.sleep(2 * GATHER)
    assert worker.texts()[2:] == [["e"]]


@in_loop
async def test_a_short_request_overtakes_a_document() -> None:
    worker = FakeWorker()
    scheduler, now = make(worker, limit=1000)
    scheduler.submit(sentences(*(f"document {number}" for number in range(200))))
    assert [len(texts) for texts in worker.texts()] == [32, 32]
    now[0] = 20.0
    for _ in range(3):
        (short,) = sentences("short")
        scheduler.submit([short])
        assert worker.texts()[-1] == ["short"]
        answer(scheduler, worker, max(worker.running))
        assert short.future.result()["text"] == "short"
    assert len(worker.texts()) == 5


@in_loop
async def test_documents_are_not_starved() -> None:
    worker = FakeWorker(threads=1)
    scheduler, now = make(worker, limit=1000)
    scheduler.submit(sentences("x"))
    scheduler.submit(sentences(*(f"document {number}" for number in range(10))))
    now[0] = 60.0
    scheduler.submit(sentences("short"))
    answer(scheduler, worker, next(iter(worker.running)))
    assert worker.texts()[1][0].startswith("document")


@in_loop
async def test_different_models_and_settings_do_not_mix() -> None:
    worker = FakeWorker(threads=1)
    scheduler, _ = make(worker)
    scheduler.submit(sentences("first"))
    scheduler.submit(sentences("a", "b"))
    scheduler.submit(sentences("c", model="n"))
    for _ in range(2):
        answer(scheduler, worker, next(iter(worker.running)))
    assert worker.texts() == [["first"], ["a", "b"], ["c"]]


@in_loop
async def test_the_queue_is_bounded() -> None:
    scheduler, _ = make(None, limit=3)
    scheduler.submit(sentences("a", "b"))
    with pytest.raises(Refusal) as full:
        scheduler.submit(sentences("c", "d"))
    assert (full.value.status, full.value.retry_after) == (503, 1)
    with pytest.raises(Refusal) as never:
        scheduler.submit(sentences(*"abcd"))
    assert (never.value.status, never.value.retry_after) == (413, None)  # waiting would not help
    assert never.value.message == "sentences per request (queue size): at most 3, but there are 4."
    assert scheduler.waiting == 2


@in_loop
async def test_abandoned_sentences_leave_queue_and_batch() -> None:
    worker = FakeWorker(threads=1)
    scheduler, _ = make(worker)
    first, second, third = sentences("a", "b", "c")
    scheduler.submit([first])
    scheduler.submit([second, third])
    scheduler.abandon([first, second])
    assert worker.sent[-1] == {"do": "stop", "id": worker.sent[0]["id"], "places": [0]}
    assert scheduler.waiting == 1
    scheduler.finish(worker, worker.sent[0]["id"], {"results": [None]})
    assert worker.texts()[-1] == ["c"]
    answer(scheduler, worker, next(iter(worker.running)))
    assert (scheduler.waiting, scheduler.decoding, scheduler.groups) == (0, 0, {})


@in_loop
async def test_one_bad_sentence_does_not_fail_its_batch() -> None:
    worker = FakeWorker(threads=1)
    scheduler, _ = make(worker)
    good, bad = both = sentences("good", "bad")
    scheduler.submit(both)
    scheduler.finish(worker, next(iter(worker.running)), {"error": "no"})
    assert worker.texts()[1:] == [["good"]]
    answer(scheduler, worker, next(iter(worker.running)))
    scheduler.finish(worker, next(iter(worker.running)), {"error": "no"})
    assert good.future.result()["text"] == "good"
    refusal = bad.future.exception()
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.message) == (422, "no")


@in_loop
async def test_sentences_of_a_dead_worker_are_retried_once() -> None:
    dead, alive = FakeWorker(), FakeWorker()
    scheduler, _ = make(dead)
    (sentence,) = sentences("a")
    scheduler.submit([sentence])
    scheduler.worker = None
    scheduler.lose(dead)
    assert scheduler.waiting == 1
    scheduler.worker = alive
    scheduler.dispatch()
    assert alive.texts() == [["a"]]
    scheduler.worker = None
    scheduler.lose(alive)
    refusal = sentence.future.exception()
    assert isinstance(refusal, Refusal)
    assert refusal.code == "worker_lost"
    assert (scheduler.waiting, scheduler.decoding) == (0, 0)


@in_loop
async def test_a_hanging_batch_is_detected() -> None:
    worker = FakeWorker(threads=1)
    scheduler, _ = make(worker)
    own = sentences("a", "b")
    scheduler.submit(own)
    (batch,) = worker.running.values()
    scheduler.abandon(own[:1])
    assert batch.unwanted_for(50.0) == 0  # a client waits for b
    scheduler.abandon(own[1:])
    assert [batch.unwanted_for(now) for now in (100.0, 103.0)] == [0, 3]


@in_loop
async def test_counts_return_to_zero() -> None:
    worker = FakeWorker()
    scheduler, _ = make(worker, limit=10_000)
    for size in (1, 7, 40, 3, 100):
        some = sentences(*(str(number) for number in range(size)))
        scheduler.submit(some)
        scheduler.abandon(some[::2])
    while worker.running:
        answer(scheduler, worker, next(iter(worker.running)))
    assert (scheduler.waiting, scheduler.decoding, scheduler.groups) == (0, 0, {})


def test_keys(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# comment\nann long-enough-1\nlong-enough-2\n")
    keys = KeyRing.read(tmp_path / "keys")
    assert [keys.check(key) for key in ("long-enough-1", "long-enough-2")] == ["ann", "key-3"]
    for wrong in (None, "", "long-enough-3", "long-enough-1 ", "é\ud800"):
        with pytest.raises(Refusal, match="API key"):
            keys.check(wrong)
    assert key_of_headers({b"authorization": b"bearer  x "}) == "x"
    assert key_of_headers({b"x-api-key": b"y"}) == "y"
    assert key_of_headers({b"authorization": b"Basic x"}) is None


@pytest.mark.parametrize("content", ["", "short", "a b c", "a long-enough-1\na long-enough-2"])
def test_invalid_key_files(tmp_path: Path, content: str) -> None:
    (tmp_path / "keys").write_text(content)
    with pytest.raises(DataError):
        KeyRing.read(tmp_path / "keys")


def test_rates() -> None:
    now = [0.0]
    limit = RateLimit(60, clock=lambda: now[0])
    for _ in range(10):
        limit.take("ann")
    with pytest.raises(Refusal) as refused:
        limit.take("ann")
    assert (refused.value.status, refused.value.retry_after) == (429, 1)
    limit.take("bob")
    now[0] = 1.0
    limit.take("ann")
    assert parse_rate("60/min") == parse_rate("60") == 60
    for wrong in ("0", "-1", "60/s", "x"):
        with pytest.raises(UsageError):
            parse_rate(wrong)


def test_forms() -> None:
    boundary = "multipart/form-data; boundary=b"
    body = (
        b'--b\r\nContent-Disposition: form-data; name="q"\r\n\r\nA dog\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nx\r\n\n--\r\n--b--\r\n'
    )
    form = read_form(boundary, b"source=en&q=no", body)
    assert form.fields == {"source": "en", "q": "A dog"}
    assert form.uploads["file"].content == b"x\r\n\n--"
    assert read_form("application/x-www-form-urlencoded", b"", b"q=a&q=b+c").fields == {"q": ["a", "b c"]}
    assert read_form("application/json", b"", b'{"q": "a"}').fields == {"q": "a"}


@given(st.sampled_from(["application/json", "multipart/form-data; boundary=b", ""]), st.binary(), st.binary())
def test_fuzzed_forms_raise_no_other_errors(kind: str, query: bytes, body: bytes) -> None:
    with contextlib.suppress(Refusal):
        read_form(kind, query, body)


def test_the_language_of_text_without_spaces() -> None:
    """Its cost per word is in the hundreds, for every language."""
    learned = {"en": "The dog runs to the house.", "zh": "小狗跑向那座房子，小猫睡在树下。"}
    translators = {}
    for language, line in learned.items():
        files = {"subwords.model": learn_sentencepiece([line] * 20, 300)}
        text = make_pipeline("sentencepiece", (language, "de"), False, files)
        translators[language] = cast(Translator, SimpleNamespace(text=text))
    assert detect_language(translators, learned["zh"] * 40) == [
        {"language": "zh", "confidence": 100.0},
        {"language": "en", "confidence": 0.0},
    ]
    assert detect_language(translators, learned["en"] * 40)[0]["language"] == "en"
