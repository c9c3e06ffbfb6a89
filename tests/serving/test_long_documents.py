"""Long files through the real server: everything but the sentences comes back as it was."""

from __future__ import annotations

import re

import pytest

from serving_support import Running

TAG = re.compile(r"<[^>]*>")
TIMING = re.compile(r"\d\d:\d\d:\d\d,\d{3} --> \d\d:\d\d:\d\d,\d{3}")


def translate_file(server: Running, name: str, text: str) -> str:
    files = {"file": (name, text.encode())}
    answer = server.post("/translate_file", data={"source": "en", "target": "de"}, files=files)
    assert answer.status_code == 200, answer.text
    return server.get(answer.json()["translatedFileUrl"].removeprefix(server.url)).content.decode()


@pytest.mark.slow
def test_html_of_300_lines(server: Running) -> None:
    lines = [
        f'<div id="d{n}"><p>A dog runs. <b class="x">The cat</b> sleeps &amp; sings.</p>\n'
        f'  <!-- {n} --><code translate="no">a dog {n}</code>\n</div>'
        for n in range(100)
    ]
    html = "\n".join(lines)
    written = translate_file(server, "a.html", html)
    assert written != html
    assert TAG.findall(written) == TAG.findall(html)
    assert re.findall("a dog [0-9]+", written) == [f"a dog {n}" for n in range(100)]
    assert written.count("\n") == html.count("\n") == 299


@pytest.mark.slow
def test_srt_of_300_lines(server: Running) -> None:
    cues = [f"{n}\n00:{n:02}:01,000 --> 00:{n:02}:02,500\nA dog runs.\nThe cat sleeps.\n\n" for n in range(60)]
    text = "".join(cues)
    written = translate_file(server, "a.srt", text)
    assert written != text
    assert TIMING.findall(written) == TIMING.findall(text)
    assert written.count("\n\n") == text.count("\n\n") == 60
    numbers = [cue.split("\n")[0] for cue in written.split("\n\n")[:-1]]
    assert numbers == [str(n) for n in range(60)]
    assert text.count("\n") == 300
