"""The routes of `/v1`, of monitoring and of the page."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from lamina.names import nearest
from lamina.serving.answers import as_json, finish_job, log_texts
from lamina.serving.guard import Receive, Scope, Send, error_answer
from lamina.serving.libre import add_dialect
from lamina.serving.messages import ErrorResponse, ModelsResponse, TranslateRequest, TranslateResponse
from lamina.serving.options import LOOPBACK
from lamina.serving.refusals import Refusal
from lamina.serving.service import Service
from lamina.version import __version__

STATUSES = (400, 401, 404, 413, 422, 429, 503)
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": TranslateRequest.model_json_schema(),
                "example": {"texts": ["A dog runs."]},
            }
        },
    }
}

PROXIES = frozenset({"forwarded", "via", "x-real-ip"})  # headers that proxies add, besides X-Forwarded-*
log = logging.getLogger("lamina.serve")


class Application:
    """FastAPI, except that its own part in a POST request, which takes longer than all of ours, is left out.

    These endpoints read the request themselves; FastAPI describes them, and serves everything else.
    """

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.paths = frozenset(route.path for route in app.routes if isinstance(route, APIRoute))
        self.posts = {
            route.path: route for route in app.routes if isinstance(route, APIRoute) and route.methods == {"POST"}
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; the guard answers what is refused."""
        route = self.posts.get(scope["path"]) if scope["method"] == "POST" else None
        if route is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = route
        response = await route.endpoint(Request(scope, receive))
        await response(scope, receive, send)


def make_app(service: Service) -> Application:
    """All routes. Requests reach them through the guard."""
    app = FastAPI(
        title="Lamina",
        version=__version__,
        description="Translation with layer fusion.",
        docs_url=None,
        redoc_url=None,
    )
    add_translation(app, service)
    add_operation(app, service)
    add_dialect(app, service)
    add_page(app)
    for kind in (Refusal, HTTPException, Exception):
        app.add_exception_handler(kind, answer_refusal)
    return Application(app)


async def answer_refusal(request: Request, error: Exception) -> Response:
    """Whatever is refused within a route, and unknown paths and methods."""
    if isinstance(error, HTTPException):
        code = {404: "not_found", 405: "not_allowed"}.get(error.status_code, "invalid")
        message = {404: "Not found.", 405: "Method not allowed."}
        error = Refusal(error.status_code, code, message.get(error.status_code, "The request is not valid."))
    if not isinstance(error, Refusal):
        error = Refusal(500, "internal", f"Internal error; see request {request.scope['lamina.id']} in the server log.")
    content, headers = error_answer(request.scope["path"], error)
    response = Response(content, error.status)
    response.raw_headers = headers
    return response


def add_translation(app: FastAPI, service: Service) -> None:
    """`/v1/translate`, its stream, and `/v1/models`."""
    errors: dict[int | str, dict[str, Any]] = {status: {"model": ErrorResponse} for status in STATUSES}

    @app.post(
        "/v1/translate",
        responses={**errors, 200: {"model": TranslateResponse}},
        openapi_extra=BODY,
        summary="Translate texts",
    )
    async def translate(request: Request) -> Response:
        """Translate texts, lines or whole documents, with one response for all."""
        asked = parse(await request.body())
        log_texts(service.options, request, asked)
        answer = await finish_job(service, service.submit(asked), request)
        return as_json(answer) if answer is not None else Response(status_code=499)  # the client is gone

    @app.post(
        "/v1/translate/stream",
        responses={**errors, 200: {"content": {"text/event-stream": {}}}},
        openapi_extra=BODY,
        summary="Translate texts, streaming by sentence",
    )
    async def stream(request: Request) -> Response:
        """Server-sent events: `sentence` as each one is finished, then `done` with the complete response, or `error`.

        A single text may be as long as an uploaded file.
        """
        asked = parse(await request.body())
        log_texts(service.options, request, asked)
        one = len(asked.texts) == 1 and asked.prefixes is None
        job = service.submit(asked, service.options.max_document if one else None)
        return StreamingResponse(events(service.stream(job)), media_type="text/event-stream", headers=UNBUFFERED)

    @app.get("/v1/models", responses={200: {"model": ModelsResponse}}, summary="List models")
    async def models() -> Response:
        """The name, languages, system, task and size of each model."""
        return as_json({"models": service.models})


UNBUFFERED = {"cache-control": "no-cache", "x-accel-buffering": "no"}


async def events(found: AsyncIterator[tuple[str, dict[str, Any]]]) -> AsyncIterator[str]:
    """Server-sent events."""
    async for name, content in found:
        yield f"event: {name}\ndata: {json.dumps(content, ensure_ascii=False)}\n\n"


def add_operation(app: FastAPI, service: Service) -> None:
    """Routes for monitoring and operation."""

    @app.get("/health", summary="Health check")
    async def health() -> Response:
        """200 while the server is running."""
        return as_json({"status": "ok"})

    @app.get("/ready", summary="Readiness check")
    async def ready() -> Response:
        """200 once the models are loaded and warmed up; 503 before that and while a worker is being replaced."""
        if service.supervisor.current is None or service.supervisor.stopping:
            raise Refusal(503, "not_ready", "The models are loading.", retry_after=2)
        return as_json({"status": "ready"})

    @app.get("/metrics", summary="Prometheus metrics")
    async def metrics() -> Response:
        """Metrics in Prometheus' text format."""
        return Response(service.scheduler.metrics.render(), media_type="text/plain; version=0.0.4")

    @app.post("/admin/reload", summary="Reload the models")
    async def reload(request: Request) -> Response:
        """Accepted from this machine only, not through a proxy. The old models answer until the new ones are ready."""
        if request.client is None or request.client.host not in LOOPBACK or is_proxied(request):
            raise Refusal(404, "not_found", "Not found.")
        try:
            await service.supervisor.reload()
        except Exception as error:
            log.error("reload failed: %s", error)
            raise Refusal(503, "reload_failed", "The new models could not be loaded; keeping the old ones.") from None
        return as_json({"status": "reloaded"})


def is_proxied(request: Request) -> bool:
    """Whether a proxy passed the request on, perhaps for another machine; one that adds no header is not recognised."""
    return any(name in PROXIES or name.startswith("x-forwarded-") for name in request.headers)


def add_page(app: FastAPI) -> None:
    """The page and its files, read once."""
    folder = files("lamina.serving") / "static"
    contents = {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.is_file()}

    def answer(name: str) -> Response:
        if name not in contents:
            raise Refusal(404, "not_found", "Not found.")
        suffix = name[name.rfind(".") :]
        kind = TYPES.get(suffix, "application/octet-stream")
        return Response(contents[name], media_type=kind, headers={"cache-control": "no-cache"})

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return answer("index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return answer("docs.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return answer(name)


def parse(body: bytes) -> TranslateRequest:
    """A request's body; the first thing wrong with it is named."""
    try:
        return TranslateRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            raise Refusal(400, "invalid_json", "The body is not JSON in UTF-8.") from None
        place = ".".join(str(part)[:40] for part in first["loc"]) or "body"
        if first["type"] == "extra_forbidden":
            known = TranslateRequest.model_fields
            raise Refusal(422, "invalid", f"{place}: not a field.{nearest(str(first['loc'][-1]), known)}") from None
        raise Refusal(422, "invalid", f"{place}: {first['msg']}.") from None
