"""`docs/tutorial-serving.md`, block by block, with small models in place of the demo's."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import httpx
import pytest

import lamina
from serving_support import start_server

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial-serving.md").read_text()
ADDRESS = "http://127.0.0.1:8000"  # the page's; the test takes a free port


@pytest.mark.slow
def test_the_tutorial_runs(
    models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demo" / "runs").mkdir(parents=True)
    for run, model in {"plain": "mixed", "fused": "fused"}.items():
        (tmp_path / "demo" / "runs" / run).symlink_to(models[model])
    monkeypatch.chdir(tmp_path)
    one, both = (shlex.split(each) for each in re.findall(r"^lamina serve (.*)$", PAGE, flags=re.MULTILINE))
    (curl,) = (shlex.split(each) for each in re.findall(r"^curl (.*)$", PAGE, flags=re.MULTILINE))
    (script,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    with start_server(tmp_path, *one, "--threads", "1") as server:
        assert "ready: fused" in PAGE
        assert " ready: fused\n" in server.log.read_text()
        url, flag, body = curl
        assert flag == "-d"
        as_curl = {"Content-Type": "application/x-www-form-urlencoded"}  # what curl sends unless told otherwise
        answer = httpx.post(url.replace(ADDRESS, server.url), content=body, headers=as_curl, timeout=60).json()
        assert answer["model"] == "fused"
        assert answer["results"][0].keys() >= {"text", "score"}
        assert ADDRESS in script
        exec(compile(script.replace(ADDRESS, server.url), "tutorial-serving.md", "exec"), {})
        text = lamina.load("demo/runs/fused").translate("She finds his cats.", beam=5).text
        assert capsys.readouterr().out == f"{text}\n"
        assert [server.get(path).status_code for path in ("/", "/docs", "/health", "/ready", "/metrics")] == [200] * 5
        assert "translatedText" in server.post("/translate", {"q": "A dog.", "source": "en", "target": "de"}).json()
    with start_server(tmp_path, *both, "--threads", "1") as server:
        assert '"model": "plain"' in PAGE
        assert server.translate("A dog runs.", model="plain")["model"] == "plain"
