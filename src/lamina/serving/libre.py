"""LibreTranslate's API, so that its clients work unchanged."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from lamina.serving.answers import as_json, finish_job, log_texts
from lamina.serving.forms import Form, read_form
from lamina.serving.languages import language_name
from lamina.serving.messages import TranslateRequest
from lamina.serving.options import MAX_NBEST
from lamina.serving.refusals import Refusal, too_large
from lamina.serving.service import Service, check_text
from lamina.translation.documents import FORMATS, Format, format_of_file

FILES = [".txt", ".html", ".srt", ".vtt"]
KEPT_FILES, KEPT_BYTES, KEPT_SECONDS = 50, 50_000_000, 600.0


@dataclass
class Downloads:
    """Translated files until they are fetched: a few, for a while."""

    entries: OrderedDict[str, tuple[float, str, bytes]] = field(default_factory=OrderedDict)

    def add(self, name: str, content: bytes) -> str:
        """Keep a file; its name cannot be guessed."""
        key = f"{secrets.token_urlsafe(18)}{PurePath(name).suffix.lower()}"
        self.entries[key] = (time.monotonic() + KEPT_SECONDS, name, content)
        while len(self.entries) > KEPT_FILES or sum(len(each[2]) for each in self.entries.values()) > KEPT_BYTES:
            self.entries.popitem(last=False)
        return key

    def get(self, key: str) -> tuple[str, bytes]:
        """A file that is still there."""
        for old in [name for name, entry in self.entries.items() if entry[0] < time.monotonic()]:
            del self.entries[old]
        if key not in self.entries:
            raise Refusal(404, "not_found", "This file is no longer available.")
        _, name, content = self.entries[key]
        return name, content


def add_dialect(app: FastAPI, service: Service) -> None:
    """`/translate`, `/detect`, `/languages`, `/frontend/settings`, `/translate_file`."""
    add_texts(app, service)
    add_files(app, service, Downloads())
    add_languages(app, service)


def add_texts(app: FastAPI, service: Service) -> None:
    """`/translate`."""

    @app.post("/translate", summary="Translate (LibreTranslate)")
    async def translate(request: Request) -> Response:
        """Parameters: `q`, `source`, `target`, `format`, `alternatives`, `api_key`, as JSON or as a form."""
        form = await form_of(request)
        texts, many = texts_of(form)
        detected, model = await choose_model(service, form, texts[0] if texts else "")
        if not texts:
            return as_json({"translatedText": []})
        alternatives = number_of(form, "alternatives")
        asked = TranslateRequest(
            texts=texts, model=model["name"], nbest=1 + alternatives, format=format_of(form, model)
        )
        answer = await finish(service, request, asked)
        results = [result["text"] for result in answer["results"]]
        content: dict[str, Any] = {"translatedText": results if many else results[0]}
        if alternatives:
            others = [other_texts(result, alternatives) for result in answer["results"]]
            content["alternatives"] = others if many else others[0]
        if detected is not None:
            content["detectedLanguage"] = [detected] * len(texts) if many else detected
        return as_json(content)


def add_files(app: FastAPI, service: Service, downloads: Downloads) -> None:
    """`/translate_file`, and where its results are fetched."""

    @app.post("/translate_file", summary="Translate a file (LibreTranslate)")
    async def translate_file(request: Request) -> Response:
        """Parameters: `file` (.txt, .html, .srt or .vtt, in UTF-8), `source`, `target`, `api_key`."""
        form = await form_of(request)
        upload = form.uploads.get("file")
        if upload is None:
            raise Refusal(400, "invalid", "Invalid request: missing file parameter.")
        kind = format_of_file(upload.name)
        if kind is None:
            raise Refusal(400, "invalid", f"Invalid request: file format not supported; use {', '.join(FILES)}.")
        try:
            text = upload.content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refusal(422, "invalid", f"The file is not UTF-8 at byte {error.start}.") from None
        _, model = await choose_model(service, form, text[:1000])
        check_text(text, service.options.max_document)
        asked = TranslateRequest(texts=[text], model=model["name"], format=kind)
        answer = await finish(service, request, asked, service.options.max_document)
        key = downloads.add(upload.name, answer["results"][0]["text"].encode("utf-8"))
        base = f"{scheme_of(request)}://{request.headers.get('host', '')}{service.options.url_prefix}"
        return as_json({"translatedFileUrl": f"{base}/download_file/{key}"})

    @app.get("/download_file/{key}", include_in_schema=False)
    async def download(key: str) -> Response:
        name, content = downloads.get(key)
        safe = "".join(each for each in PurePath(name).name if each.isascii() and (each.isalnum() or each in "._-"))
        disposition = f'attachment; filename="translated-{safe}"'
        return Response(content, media_type="application/octet-stream", headers={"content-disposition": disposition})


def add_languages(app: FastAPI, service: Service) -> None:
    """`/detect`, `/languages` and `/frontend/settings`."""

    @app.post("/detect", summary="Detect a language (LibreTranslate)")
    async def detect(request: Request) -> Response:
        """Detect the language of `q` among the source languages."""
        form = await form_of(request)
        texts, many = texts_of(form)
        if len(texts) > service.options.max_texts:
            raise too_large("texts", service.options.max_texts, len(texts))
        found = [await detect_language(service, text) for text in texts]
        return as_json(found if many else found[0])

    @app.get("/languages", summary="Languages (LibreTranslate)")
    async def languages() -> Response:
        """Source languages, each with its target languages."""
        return as_json(all_languages(service))

    @app.get("/frontend/settings", summary="Settings (LibreTranslate)")
    async def settings() -> Response:
        """Settings for web clients."""
        first = service.models[0]
        pair = {side: {"code": first[side], "name": language_name(first[side])} for side in ("source", "target")}
        return as_json(
            {
                "apiKeys": service.options.api_keys is not None,
                "charLimit": service.options.max_chars,
                "frontendTimeout": 500,
                "keyRequired": service.options.api_keys is not None,
                "language": pair,
                "suggestions": False,
                "supportedFilesFormat": FILES,
            }
        )


async def form_of(request: Request) -> Form:
    """What was sent, after its key was checked."""
    kind = request.headers.get("content-type", "")
    form = read_form(kind, request.scope["query_string"], await request.body())
    given = form.fields.get("api_key")
    request.scope["lamina.guard"].check_late(request.scope, given if isinstance(given, str) else None)
    return form


def scheme_of(request: Request) -> str:
    """`https` behind a TLS proxy that says so. Any client can, but like `Host`, this changes only its own answer."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return forwarded if forwarded in ("http", "https") else request.url.scheme


def texts_of(form: Form) -> tuple[list[str], bool]:
    """`q`, and whether it is a list."""
    given = form.fields.get("q")
    if isinstance(given, str):
        return [given], False
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        return given, True
    hint = " JSON needs the header Content-Type: application/json." if any("{" in name for name in form.fields) else ""
    raise Refusal(400, "invalid", f"Invalid request: missing q parameter (a text or a list of texts).{hint}")


def number_of(form: Form, name: str) -> int:
    """A small number, as JSON or as text."""
    given = form.fields.get(name, 0)
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) < 4:
        given = int(given)
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < MAX_NBEST:
        raise Refusal(400, "invalid", f"Invalid request: {name} must be from 0 to {MAX_NBEST - 1}.")
    return given


def format_of(form: Form, model: dict[str, Any]) -> Format | None:
    """`text` or `html`; a summarizer reads whole texts."""
    given = form.fields.get("format") or "text"
    if given not in FORMATS:
        raise Refusal(400, "invalid", f"Invalid request: format must be one of {', '.join(FORMATS)}.")
    return None if given == "text" and model["task"] == "summarization" else given


async def choose_model(service: Service, form: Form, text: str) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """The model of a language pair; the language is detected if the source is `auto`."""
    source, target = form.fields.get("source"), form.fields.get("target")
    for name, value in (("source", source), ("target", target)):
        if not isinstance(value, str) or not value:
            raise Refusal(400, "invalid", f"Invalid request: missing {name} parameter.")
    detected = None
    pairs = [model for model in service.models if model["target"] == target]
    if source == "auto" and pairs:
        check_text(text, service.options.max_document)
        ranked = await detect_language(service, text)
        possible = [each for each in ranked if any(model["source"] == each["language"] for model in pairs)]
        detected = possible[0] if possible else ranked[0]
        source = detected["language"]
    for model in pairs:
        if model["source"] == source:
            return detected, model
    known = ", ".join(sorted({f"{model['source']}-{model['target']}" for model in service.models}))
    raise Refusal(400, "unsupported", f"Language pair not supported; available: {known}.")


async def detect_language(service: Service, text: str) -> list[dict[str, Any]]:
    """Candidates, best first."""
    check_text(text, service.options.max_document)
    answer = await service.supervisor.ask({"do": "detect", "text": text[:1000]})
    found: list[dict[str, Any]] = answer["languages"]
    return found


async def finish(
    service: Service, request: Request, asked: TranslateRequest, max_chars: int | None = None
) -> dict[str, Any]:
    """A whole answer; its sentences are given up if the client leaves."""
    log_texts(service.options, request, asked)
    answer = await finish_job(service, service.submit(asked, max_chars), request)
    if answer is None:
        raise Refusal(499, "gone", "The client disconnected.")
    return answer


def other_texts(result: dict[str, Any], most: int) -> list[str]:
    """Candidates that differ from the best."""
    texts = dict.fromkeys(each["text"] for each in result["nbest"])
    return [text for text in texts if text != result["text"]][:most]


def all_languages(service: Service) -> list[dict[str, Any]]:
    """`/languages`."""
    codes: dict[str, set[str]] = {}
    for model in service.models:
        codes.setdefault(model["source"], set()).add(model["target"])
        codes.setdefault(model["target"], set())
    return [
        {"code": code, "name": language_name(code), "targets": sorted(targets)}
        for code, targets in sorted(codes.items())
    ]
