"""Helpers of all routes: JSON responses, logged texts, and detection of disconnected clients."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from lamina.serving.messages import TranslateRequest
from lamina.serving.options import ServeOptions
from lamina.serving.service import SentenceJob, Service

log = logging.getLogger("lamina.serve")


def as_json(content: Any, status: int = 200) -> Response:
    """An answer in UTF-8."""
    return Response(json.dumps(content, ensure_ascii=False), status, media_type="application/json")


def log_texts(options: ServeOptions, request: Request, asked: TranslateRequest) -> None:
    """Only where the operator asked for it."""
    if options.log_text:
        log.info("id=%s texts=%s", request.scope["lamina.id"], json.dumps(asked.texts, ensure_ascii=False))


async def disconnected(request: Request) -> None:
    """Ends when the client leaves."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def finish_job(service: Service, job: SentenceJob, request: Request) -> dict[str, Any] | None:
    """A job's answer; nothing if the client left."""
    left = asyncio.ensure_future(disconnected(request))
    try:
        return await service.finish(job, left)
    finally:
        left.cancel()
