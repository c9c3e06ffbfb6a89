"""Helpers of all routes: JSON responses, and detection of disconnected clients."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from lamina.serving.service import SentenceJob, Service


def as_json(content: Any, status: int = 200) -> Response:
    """An answer in UTF-8."""
    return Response(json.dumps(content, ensure_ascii=False), status, media_type="application/json")


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
