"""LibreTranslate's dialect, spoken by its own clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from deep_translator import LibreTranslator
from libretranslatepy import LibreTranslateAPI

import lamina
from serving_support import Running


@pytest.fixture(scope="module")
def expected(models: dict[str, Path]) -> str:
    return lamina.load(models["fused"]).translate("A dog runs.").text


def test_libretranslatepy(server: Running, expected: str) -> None:
    client = LibreTranslateAPI(f"{server.url}/")
    assert client.translate("A dog runs.", "en", "de") == expected
    languages = {each["code"]: each for each in client.languages()}
    assert languages["en"]["targets"] == ["de", "en"]
    assert client.detect("A dog runs.")[0]["language"] in languages


def test_deep_translator(server: Running, expected: str) -> None:
    client = LibreTranslator(source="en", target="de", custom_url=f"{server.url}/", api_key="none")
    assert client.translate("A dog runs.") == expected
    assert client.translate_batch(["A dog runs.", "A dog runs."]) == [expected] * 2


def test_lists_alternatives_and_detection(server: Running, expected: str) -> None:
    body = {"q": ["A dog runs.", ""], "source": "en", "target": "de"}
    assert server.post("/translate", body).json() == {"translatedText": [expected, ""]}
    several = server.post("/translate", {**body, "q": "A dog runs.", "alternatives": 3}).json()
    assert 1 <= len(several["alternatives"]) <= 3
    assert expected not in several["alternatives"]
    guessed = server.post("/translate", {**body, "q": "A dog runs.", "source": "auto"}).json()
    assert guessed["detectedLanguage"]["language"] == "en"
    many = server.post("/detect", {"q": ["A dog runs."] * 301})
    assert (many.status_code, many.json()["error"]) == (413, "texts: at most 300, but there are 301.")


def test_settings(server: Running) -> None:
    settings = server.get("/frontend/settings").json()
    assert settings["charLimit"] == 5000
    assert settings["language"]["source"] == {"code": "en", "name": "English"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"source": "en", "target": "de"}, 400),
        ({"q": "a", "target": "de"}, 400),
        ({"q": "a", "source": "en"}, 400),
        ({"q": "a", "source": "en", "target": "xx"}, 400),
        ({"q": "a", "source": "en", "target": "de", "format": "pdf"}, 400),
        ({"q": "a", "source": "en", "target": "de", "alternatives": 100}, 400),
        ({"q": [1], "source": "en", "target": "de"}, 400),
        ({"q": "a" * 5001, "source": "en", "target": "de"}, 413),
    ],
)
def test_errors_are_one_sentence(server: Running, body: dict[str, object], status: int) -> None:
    answers = [server.post("/translate", body)]
    if body.get("q") != [1]:  # which a form writes as text
        answers.append(server.post("/translate", data=body))
    for response in answers:
        assert response.status_code == status
        assert isinstance(response.json()["error"], str)


def test_a_file_is_translated(server: Running) -> None:
    text = b"1\r\n00:00:01,000 --> 00:00:02,000\r\nA dog runs.\r\n\r\n"
    form = {"source": "en", "target": "de"}
    answer = server.post("/translate_file", data=form, files={"file": ("a.srt", text)})
    assert answer.status_code == 200, answer.text
    place = answer.json()["translatedFileUrl"]
    assert place.startswith(server.url)
    content = server.get(place.removeprefix(server.url)).content
    assert content.startswith(b"1\r\n00:00:01,000 --> 00:00:02,000\r\n")
    assert content.endswith(b"\r\n\r\n")
    for forwarded, scheme in (("https", "https"), ("HTTPS, http", "https"), ("http", "http"), ("javascript", "http")):
        behind = {"x-forwarded-proto": forwarded, "host": "mt.example"}
        answer = server.post("/translate_file", data=form, files={"file": ("a.srt", text)}, headers=behind)
        assert answer.json()["translatedFileUrl"].startswith(f"{scheme}://mt.example/download_file/")
    assert server.get("/download_file/other.srt").status_code == 404
    assert server.post("/translate_file", data=form, files={"file": ("a.exe", text)}).status_code == 400
    assert server.post("/translate_file", data=form).status_code == 400


def test_json_without_its_header_is_explained(server: Running) -> None:
    answer = server.post(
        "/translate", content=b'{"q": "a"}', headers={"content-type": "application/x-www-form-urlencoded"}
    )
    assert answer.status_code == 400
    assert answer.json()["error"].endswith("JSON needs the header Content-Type: application/json.")
