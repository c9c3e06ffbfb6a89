"""A fake Hub server that supports uploading and downloading repositories of small files."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubStandIn(ThreadingHTTPServer):
    """Repositories in memory."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: HubStandIn

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, content: Any = None, code: int = 200, headers: dict[str, str] | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:3] == ["api", "repos", "create"]:
            wanted = json.loads(body)
            name = "/".join(filter(None, (wanted.get("organization"), wanted["name"])))
            self.server.repositories.setdefault(name, {})
            return self.answer({"url": f"{self.server.address}/{name}", "name": name})
        if parts[:2] == ["api", "validate-yaml"]:
            return self.answer({"errors": [], "warnings": []})
        name, action = "/".join(parts[2:4]), parts[4]
        if action == "preupload":
            files = [{**each, "uploadMode": "regular", "shouldIgnore": False} for each in json.loads(body)["files"]]
            return self.answer({"files": files})
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.server.repositories[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        address = f"{self.server.address}/{name}/commit/{COMMIT}"
        return self.answer({"success": True, "commitOid": COMMIT, "commitUrl": address})

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        api = parts[0] == "api"
        name = "/".join(parts[2:4] if api else parts[:2])
        files = self.server.repositories.get(name)
        if files is None:
            return self.answer(code=404, headers={"X-Error-Code": "RepoNotFound", "X-Error-Message": "no such model"})
        if api and len(parts) > 4 and parts[4] == "tree":
            return self.answer([{"type": "file", "path": each, "size": len(files[each]), "oid": "0"} for each in files])
        if api:
            siblings = [{"rfilename": each} for each in files]
            return self.answer({"id": name, "sha": COMMIT, "siblings": siblings, "private": False, "tags": []})
        content = files["/".join(parts[4:])]
        etag = f'"{hashlib.sha1(content).hexdigest()}"'
        return self.answer(content, headers={"ETag": etag, "X-Repo-Commit": COMMIT})

    do_HEAD = do_GET


@contextmanager
def hub() -> Iterator[HubStandIn]:
    server = HubStandIn()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
