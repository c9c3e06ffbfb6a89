"""1,000 sentences, one by one, from 64 clients: the same as `lamina translate`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from lamina.bench.serving import Connection
from lamina.demo.grammar import demo_pairs
from serving_support import Running
from support import run_lamina


@pytest.mark.slow
def test_a_thousand_sentences_of_64_clients(server: Running, models: dict[str, Path], tmp_path: Path) -> None:
    lines = [english for english, _ in demo_pairs("test", 1000)]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    result = run_lamina("translate", models["fused"], "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    found: dict[int, str] = {}
    names = ("lamina_batch_sentences_sum", "lamina_batch_sentences_count")
    before = [server.metric(name) for name in names]

    async def ask_all() -> None:
        numbers = iter(range(len(lines)))

        async def client() -> None:
            connection = await Connection.open(int(server.url.rpartition(":")[2]))
            for number in numbers:
                body = json.dumps({"texts": [lines[number]]}).encode()
                status, content = await connection.ask("POST", "/v1/translate", body)
                assert status == 200, content
                found[number] = json.loads(content)["results"][0]["text"]
            connection.close()

        await asyncio.gather(*(client() for _ in range(64)))

    asyncio.run(ask_all())
    assert [found[number] for number in range(1000)] == (tmp_path / "out").read_bytes().decode().split("\n")[:-1]
    sentences, batches = (server.metric(name) - other for name, other in zip(names, before, strict=True))
    assert sentences > 2 * batches
