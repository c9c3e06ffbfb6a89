"""Builds the documentation site: generated pages and typeset equations, then Zensical, then a check of every link.

`python tools/build_site.py` copies `docs/` to `build/docs`, adds what is generated, and writes `site/`. The generator
sees only plain Markdown and HTML, so that another one that reads `mkdocs.yml` can replace it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import notebooks
import reference
from equations import typeset

from lamina.figures.colours import style_sheet
from lamina.version import __version__

ROOT = Path(__file__).parents[1]
STAGED = ROOT / "build" / "docs"
SITE = ROOT / "site"
FIGURE = re.compile(r"^!\[([^\]]*)\]\(([\w/.-]+\.svg)\)$", flags=re.MULTILINE)
LINK_TO_CODE = re.compile(
    r"\[([^\]]+)\]\((?:\.\./)+([\w/.-]+\.(?:py|yaml|ipynb)|(?:README|CONTRIBUTING|CHANGELOG)\.md)\)"
)


def main() -> int:
    """Stage, build, check; the exit code."""
    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGED)
    for name, lines in reference.pages().items():
        write(STAGED / "reference" / f"{name}.md", "\n".join(lines) + "\n")
    for name, text in notebooks.pages().items():
        write(STAGED / "notebooks" / f"{name}.md", text)
    for page in STAGED.rglob("*.md"):
        write(page, prepare(page.read_text(encoding="utf-8"), page.parent))
    rules = [
        style_sheet(dark, f'[data-md-color-scheme="{name}"] ') for name, dark in (("default", False), ("slate", True))
    ]
    write(STAGED / "figures.css", "\n".join(rules))
    url = repository()
    note = f"Lamina {__version__} · MIT licence"
    settings = {"LAMINA_COPYRIGHT": note, "LAMINA_REPOSITORY": url, "LAMINA_EDIT": "edit/main/docs/" if url else ""}
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout + done.stderr)
        return done.returncode
    wrong = [*outside_navigation(), *check(SITE)]
    print(
        "\n".join(wrong) or f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}/, every link checked"
    )
    return int(bool(wrong))


def write(path: Path, text: str) -> None:
    """A staged page, in a folder that may be new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def prepare(markdown: str, folder: Path) -> str:
    """Equations as MathML and figures in the page; a link to a file of the repository becomes its name."""
    markdown = LINK_TO_CODE.sub(lambda link: named(*link.groups()), markdown)
    return typeset(FIGURE.sub(lambda found: drawn(found[1], folder / found[2]), markdown))


def drawn(words: str, path: Path) -> str:
    """An SVG as part of the page, so that it has the page's colours, light or dark."""
    svg = re.sub(r">\s*\n\s*", ">", path.read_text(encoding="utf-8")).replace("\n", " ")
    return f'<div class="drawing" title="{escape(words)}">{svg}</div>'


def named(words: str, path: str) -> str:
    """What is linked, and its path unless that is the same."""
    return words if words.strip("`") in path and "/" in words else f"{words} (`{path}`)"


def repository() -> str:
    """Where the code is hosted, for links: `LAMINA_REPOSITORY`, else the web address of `origin`, else empty."""
    given = os.environ.get("LAMINA_REPOSITORY")
    if given is None:
        command = ["git", "remote", "get-url", "origin"]
        given = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    found = re.fullmatch(r"(?:https://|git@)([\w.-]+)[:/]([\w./-]+?)(?:\.git)?/?", given)
    return f"https://{found[1]}/{found[2]}" if found else ""


def outside_navigation() -> list[str]:
    """Staged pages that `mkdocs.yml` does not list."""
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(STAGED).as_posix() for page in STAGED.rglob("*.md")]
    return [f"mkdocs.yml: {page} is missing in `nav`" for page in pages if f": {page}\n" not in listed]


class Links(HTMLParser):
    """The anchors of a page, what it links to, and what it loads."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect from one element."""
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(given.get("href", ""))
        if tag in ("script", "img", "iframe", "source"):
            self.loads.append(given.get("src", ""))


def check(site: Path) -> list[str]:
    """What is wrong: links and pictures that lead nowhere, anchors that do not exist, anything from another host."""
    pages = {path.resolve(): Links() for path in site.rglob("*.html")}
    for path, links in pages.items():
        links.feed(path.read_text(encoding="utf-8"))
    wrong = []
    for path, links in pages.items():
        name = path.relative_to(site.resolve())
        wrong += [f"{name}: loads {url} from another host" for url in links.loads if re.match(r"(https?:)?//", url)]
        for url in {*links.links, *links.loads}:
            if re.match(r"[a-z]+:|//", url) or name.name == "404.html":
                continue
            file, _, anchor = url.partition("#")
            target = (path.parent / unquote(file)).resolve() if file else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                wrong.append(f"{name}: {url} does not exist")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                wrong.append(f"{name}: {url} has no such anchor")
    return sorted(wrong)


if __name__ == "__main__":
    sys.exit(main())
