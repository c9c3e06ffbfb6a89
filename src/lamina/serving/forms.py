"""Bodies of forms: JSON, URL-encoded or multipart."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from lamina.serving.refusals import Refusal

FIELDS = 100


@dataclass(frozen=True)
class Upload:
    """A file of a form."""

    name: str
    content: bytes


@dataclass
class Form:
    """Fields and files of a request, those of its query included."""

    fields: dict[str, Any] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)


def read_form(kind: str, query: bytes, body: bytes) -> Form:
    """Everything that was sent, by name; what the body says wins over the query."""
    form = Form(dict(read_pairs(query)))
    media = kind.split(";")[0].strip().lower()
    if media == "multipart/form-data":
        read_multipart(kind, body, form)
    elif media == "application/json":
        form.fields.update(read_json(body))
    elif body:
        repeated: dict[str, list[str]] = {}
        for name, value in read_pairs(body):
            repeated.setdefault(name, []).append(value)
        form.fields.update({name: values if len(values) > 1 else values[0] for name, values in repeated.items()})
    return form


def read_pairs(text: bytes) -> list[tuple[str, str]]:
    """URL-encoded pairs."""
    try:
        return parse_qsl(text.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS)
    except ValueError:
        raise Refusal(400, "invalid_form", "The form is not URL-encoded UTF-8, or has too many fields.") from None


def read_json(body: bytes) -> dict[str, Any]:
    """An object."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, "invalid_json", "The body is not JSON in UTF-8.") from None
    if not isinstance(content, dict):
        raise Refusal(400, "invalid_json", "The body must be a JSON object.")
    return content


def read_multipart(kind: str, body: bytes, form: Form) -> None:
    """Parts between boundaries, byte for byte."""
    boundary = re.search(r'boundary="?([^";,]{1,200})"?', kind)
    if boundary is None:
        raise Refusal(400, "invalid_form", "The form has no boundary.")
    parts = (b"\r\n" + body).split(b"\r\n--" + boundary.group(1).strip().encode("latin-1", "replace"))
    if len(parts) < 3 or not parts[-1].startswith(b"--") or len(parts) > FIELDS:
        raise Refusal(400, "invalid_form", "The form is incomplete, or has too many parts.")
    for part in parts[1:-1]:
        head, separator, content = part.partition(b"\r\n\r\n")
        described = head.decode("utf-8", "replace")
        name = re.search(r'[;\s]name="([^"\r\n]*)"', described)
        if name is None or not separator:
            raise Refusal(400, "invalid_form", "A form part has no name.")
        file_name = re.search(r'filename="([^"\r\n]*)"', described)
        if file_name is not None:
            form.uploads[name.group(1)] = Upload(file_name.group(1), content)
        else:
            form.fields[name.group(1)] = content.decode("utf-8", "replace")
