"""The `/v1` API over real sockets: results, documents, streams, details, errors."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

import lamina
from serving_support import Running, json_lines, start_server
from support import run_lamina


def test_results_are_those_of_the_translator(server: Running, models: dict[str, Path], pairs: Any) -> None:
    lines = [english for english, _ in pairs[:24]]
    translator = lamina.load(models["fused"])
    expected = translator.translate(lines, beam=4, lenpen=0.6, nbest=3)
    answer = server.translate(*lines, beam=4, lenpen=0.6, nbest=3)
    assert answer["model"] == "fused"
    for result, want in zip(answer["results"], expected, strict=True):
        assert result["text"] == want.text
        assert result["score"] == pytest.approx(want.score, abs=1e-5)
        assert [each["text"] for each in result["nbest"]] == [each.text for each in want.nbest]


def test_many_clients_get_what_one_gets(server: Running, models: dict[str, Path], pairs: Any) -> None:
    lines = [english for english, _ in pairs[:100]]
    expected = [each.text for each in lamina.load(models["mixed"]).translate(lines)]

    async def ask_all() -> list[str]:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:

            async def ask(line: str) -> str:
                response = await client.post("/v1/translate", json={"texts": [line], "model": "mixed"})
                return str(response.json()["results"][0]["text"])

            return await asyncio.gather(*(ask(line) for line in lines))

    assert asyncio.run(ask_all()) == expected


def test_models_are_described(server: Running) -> None:
    found = {model["name"]: model for model in server.get("/v1/models").json()["models"]}
    assert list(found) == ["fused", "mixed", "back", "fix"]
    assert found["fused"]["system"] == "msc-surface"
    assert (found["fused"]["source"], found["fused"]["target"], found["fused"]["task"]) == ("en", "de", "translation")
    assert found["fix"]["task"] == "correction"
    assert found["mixed"]["parameters"] > 1000


def test_lines_and_blank_texts_stay(server: Running) -> None:
    text = "A dog runs.\n\n\tA cat sleeps. \r\n"
    result = server.translate(text, "", " \n ")["results"]
    assert [each["source"] for each in result[0]["sentences"]] == ["A dog runs.", "A cat sleeps."]
    one, two = (each["text"] for each in result[0]["sentences"])
    assert result[0]["text"] == f"{one}\n\n\t{two} \r\n"
    assert [each["text"] for each in result[1:]] == ["", " \n "]


def test_text_is_split_into_sentences(server: Running) -> None:
    (result,) = server.translate("A dog runs. Dr. Smith sleeps!", format="text")["results"]
    assert [each["source"] for each in result["sentences"]] == ["A dog runs.", "Dr. Smith sleeps!"]


def test_html_keeps_its_tags(server: Running) -> None:
    (result,) = server.translate('<p class="a">A dog &amp; a cat.<br></p><code>x = 1</code>', format="html")["results"]
    (sentence,) = result["sentences"]
    assert sentence["source"] == "A dog & a cat."
    assert result["text"].startswith('<p class="a">')
    assert result["text"].endswith("<br></p><code>x = 1</code>")


def test_a_prefix_is_forced(server: Running) -> None:
    (plain,) = server.translate("A dog runs.")["results"]
    (result,) = server.translate("A dog runs.", prefixes=["Der Hund"])["results"]
    assert result["text"].startswith("Der Hund")
    assert not plain["text"].startswith("Der Hund")


def test_details_tell_what_the_sockets_do(server: Running) -> None:
    (result,) = server.translate("A dog runs.", details=True)["results"]
    (sentence,) = result["sentences"]
    source, tokens = sentence["source_tokens"], sentence["tokens"]
    assert source[-1] == tokens[-1] == "</s>"
    assert [len(row) for row in sentence["attention"]] == [len(source)] * len(tokens)
    assert all(sum(row) == pytest.approx(1, abs=0.01) for row in sentence["attention"])
    assert len(sentence["attention_layers"]) == 2
    assert len(sentence["gates"]["decoder"]) == 2
    assert [len(gate) for gate in sentence["gates"]["decoder"]] == [len(tokens)] * 2
    assert [len(gate) for gate in sentence["gates"]["encoder"]] == [len(source)] * 4
    surface = sentence["surface"]
    assert len(surface["decoder"]) == len(surface["source"]) == len(surface["gate"]) == len(tokens)
    assert surface["gate"][0] == 0.8
    assert len(surface["attention"][0]) == len(source)
    assert "".join(word["text"] for word in sentence["source_words"]) == "Adogruns."
    (spaced,) = server.translate("A dog runs .", details=True)["results"]
    assert [word["text"] for word in spaced["sentences"][0]["source_words"]][-1] == "."
    assert all(word["text"] for word in spaced["sentences"][0]["source_words"])
    (mixed,) = server.translate("A dog runs.", details=True, model="mixed")["results"]
    weights = mixed["sentences"][0]["layer_weights"]
    assert weights["layers"] == ["embedding", "1", "2", "3", "4"]
    assert all(sum(row) == pytest.approx(1, abs=0.01) for row in weights["weights"])
    assert all(sum(row) == pytest.approx(1, abs=0.01) for word in weights["words"] for row in word)
    assert mixed["sentences"][0]["surface"] is None


def test_details_tell_what_is_copied(server: Running) -> None:
    (result,) = server.translate("A dog runs.", details=True, model="fix")["results"]
    (sentence,) = result["sentences"]
    pointer, length = sentence["pointer"], len(sentence["tokens"])
    assert all(0 < share < 1 for share in pointer["gate"])
    assert len(pointer["gate"]) == len(pointer["decoder"]) == len(pointer["source"]) == length
    assert all(sum(row) == pytest.approx(1, abs=0.01) for row in pointer["attention"])
    assert {symbol for symbol, share in pointer["source"][0] if share} <= set(sentence["source_tokens"])


def test_a_stream_ends_with_everything(server: Running, pairs: Any) -> None:
    lines = [english for english, _ in pairs[:40]]
    response = server.post("/v1/translate/stream", {"texts": ["\n".join(lines)], "format": "text"})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = json_lines(response.text)
    assert [name for name, _ in events] == ["sentence"] * (len(events) - 1) + ["done"]
    seen = {data["sentence"]: data["result"]["text"] for name, data in events if name == "sentence"}
    (result,) = events[-1][1]["results"]
    assert [seen[place] for place in sorted(seen)] == [each["text"] for each in result["sentences"]]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"\xff\xfe", 400, "invalid_json"),
        (b"[]", 422, "invalid"),
        (b"{}", 422, "invalid"),
        (b'{"texts": "A dog."}', 422, "invalid"),
        (b'{"texts": []}', 422, "invalid"),
        (b'{"texts": [1]}', 422, "invalid"),
        (b'{"texts": ["a"], "beam": 0}', 422, "invalid"),
        (b'{"texts": ["a"], "beam": 1e99}', 422, "invalid"),
        (b'{"texts": ["a"], "beam": 10000000000000000000000000}', 422, "invalid"),
        (b'{"texts": ["a"], "lenpen": NaN}', 422, "invalid"),
        (b'{"texts": ["a"], "nbest": 6, "beam": 5}', 422, "invalid"),
        (b'{"texts": ["a"], "prefixes": ["a", "b"]}', 422, "invalid"),
        (b'{"texts": ["a"], "format": "pdf"}', 422, "invalid"),
        (b'{"texts": ["a"], "beem": 5}', 422, "invalid"),
        (b'{"texts": ["a"], "model": "nobody"}', 404, "unknown_model"),
        (json.dumps({"texts": ["a" * 5001]}).encode(), 413, "too_large"),
        (json.dumps({"texts": ["a"] * 301}).encode(), 413, "too_large"),
    ],
)
def test_what_is_wrong_is_said(server: Running, body: bytes, status: int, code: str) -> None:
    response = server.post("/v1/translate", content=body)
    assert response.status_code == status, response.text
    assert response.json()["error"]["code"] == code
    assert len(response.json()["error"]["message"]) > 10
    assert "pydantic" not in response.text


def test_the_closest_field_is_suggested(server: Running) -> None:
    answer = server.post("/v1/translate", {"texts": ["a"], "beams": 3})
    assert answer.json()["error"]["message"] == "beams: not a field. Did you mean `beam`?"


@pytest.mark.parametrize(
    "text", ["\x00A\x00 dog.", "\u2028\ufeff", "🐕" * 50, "\u202eA dog", "A\tdog\x85runs", "日本語。"]
)
def test_strange_text_is_translated(server: Running, text: str) -> None:
    assert len(server.translate(text)["results"]) == 1


def test_half_a_character_is_refused(server: Running) -> None:
    response = server.post("/v1/translate", content=rb'{"texts": ["A \ud800 dog"]}')
    assert response.status_code in (400, 422)
    assert server.post("/translate", content=rb'{"q": "\ud800", "source": "en", "target": "de"}').status_code == 400


def test_unknown_addresses_and_methods(server: Running) -> None:
    assert server.get("/nowhere").json() == {"error": {"code": "not_found", "message": "Not found."}}
    assert server.get("/v1/translate").status_code == 405
    assert server.get("/static/../app.py").status_code == 404


def test_nothing_of_the_inside_leaves(server: Running) -> None:
    for path in ("/", "/docs", "/openapi.json", "/nowhere", "/metrics", "/health"):
        response = server.get(path)
        said = f"{response.headers} {response.text}".lower()
        for word in ("uvicorn", "starlette", "fastapi", "python", "traceback", "site-packages", "/home", "/root"):
            assert word not in said, (path, word)


def test_the_description_is_complete_and_offline(server: Running) -> None:
    paths = server.get("/openapi.json").json()["paths"]
    assert {"/v1/translate", "/v1/translate/stream", "/v1/models", "/translate", "/health", "/ready"} <= set(paths)
    for path in ("/", "/docs"):
        assert "http://" not in server.get(path).text
        assert "https://" not in server.get(path).text


def test_logs_have_ids_and_no_text(server: Running) -> None:
    response = server.post("/v1/translate", {"texts": ["A secret dog."]})
    server.post("/translate?q=Another+secret&source=en&target=de")
    log = server.log.read_text()
    assert f"id={response.headers['x-request-id']} POST /v1/translate 200" in log
    assert "secret" not in log


def test_metrics_count(server: Running) -> None:
    before = server.metric('lamina_sentences_total{end="translated"')
    server.translate("A dog runs.", "A cat sleeps.")
    assert server.metric('lamina_sentences_total{end="translated"') == before + 2
    assert server.metric("lamina_ready") == 1


@pytest.mark.slow
def test_keys_rates_prefixes_and_limits(models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("# keys\nann secret-key-1\n\nsecret-key-2\nsecret-key-4\n")
    options = ["--api-keys", tmp_path / "keys", "--rate", "1/min", "--url-prefix", "/mt", "--max-chars", "20"]
    with start_server(tmp_path, models["fix"], *options, "--log-text", wait=False) as server:
        url = f"{server.url}/mt"
        assert httpx.get(f"{server.url}/health").status_code == 404
        assert httpx.get(f"{url}/health").status_code == 200
        early = httpx.get(f"{url}/ready")
        assert early.status_code == 503
        assert early.headers["retry-after"] == "2"
        while httpx.get(f"{url}/ready").status_code != 200:
            pass
        body = {"texts": ["A dog runs."]}
        refused = httpx.post(f"{url}/v1/translate", json=body)
        assert refused.status_code == 401
        assert refused.json()["error"]["code"] == "unauthorized"
        wrong = {"authorization": "Bearer secret-key-3"}
        assert httpx.post(f"{url}/v1/translate", json=body, headers=wrong).status_code == 401
        right = {"authorization": "Bearer secret-key-1"}
        assert httpx.post(f"{url}/v1/translate", json=body, headers=right, timeout=50).status_code == 200
        limited = httpx.post(f"{url}/v1/translate", json=body, headers=right)
        assert limited.status_code == 429
        assert all(f"POST /v1/translate {code} " in server.log.read_text() for code in (401, 429))
        assert int(limited.headers["retry-after"]) >= 1
        dialect = {"q": "A dog", "source": "en", "target": "en", "api_key": "secret-key-2"}
        assert httpx.post(f"{url}/translate", json=dialect).status_code == 200
        assert httpx.post(f"{url}/translate", json={**dialect, "api_key": "no"}).json().keys() == {"error"}
        long = httpx.post(f"{url}/translate", json={**dialect, "api_key": "secret-key-4", "q": "a" * 21})
        assert long.status_code == 413
        assert httpx.get(f"{url}/").status_code == 200
        assert httpx.get(url).status_code == 307
        assert 'texts=["A dog runs."]' in server.log.read_text()
        assert 'texts=["A dog"]' in server.log.read_text()
        assert "key=ann" in server.log.read_text()
        assert "secret-key" not in server.log.read_text()


def test_a_model_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    result = run_lamina("serve", tmp_path / "nowhere")
    assert result == (3, "", f"lamina: {tmp_path / 'nowhere'}: not found.\n")
    twice = run_lamina("serve", tmp_path, f"--name={tmp_path.name}={tmp_path}")
    assert twice.returncode == 2
    assert run_lamina("serve").stderr == "lamina: RUN is required. Example: lamina serve runs/first\n"
    assert run_lamina("serve", tmp_path, "--rate", "many").returncode == 2
    assert run_lamina("serve", tmp_path, "--api-keys", tmp_path / "keys").returncode == 3


def test_a_port_in_use_is_an_error(server: Running, models: dict[str, Path]) -> None:
    port = server.url.rpartition(":")[2]
    reason = "address already in use. Choose another --host or --port."
    expected = f"lamina: Cannot listen on 127.0.0.1:{port}: {reason}\n"
    assert run_lamina("serve", models["fix"], "--port", port) == (2, "", expected)
