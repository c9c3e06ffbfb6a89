"""Build the documentation site: generate pages, typeset equations, run Zensical and check every link.

`python tools/build_site.py` copies `docs/` to `build/docs`, adds generated pages, and writes `site/`. The generator
sees only plain Markdown and HTML, so that any other that reads `mkdocs.yml` can replace it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser
from importlib.resources import files
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
MATH_FONT = "STIXTwoMath-Regular.ttf"
FIGURE = re.compile(r"^!\[([^\]]*)\]\(([\w/.-]+\.svg)\)$", flags=re.MULTILINE)
LINK_TO_CODE = re.compile(
    r"\[([^\]]+)\]\((?:\.\./)+([\w/.-]+\.(?:py|yaml|ipynb)|(?:README|CONTRIBUTING|CHANGELOG)\.md)\)"
)
CODE = re.compile(r"^```.*?^```|^(?:#|    ).*?$|`(?:[^`\n]|\n(?!\n))+`", flags=re.DOTALL | re.MULTILINE)
INLINE_CODE = re.compile(r"`[^`\n]+`")
TABLE = re.compile(r"^(\|.+\|)\n(\|[ :|-]+\|)\n((?:\|.+\|\n)+)", flags=re.MULTILINE)
UNBROKEN = 32  # characters of code that fit a line on a phone
LONG, MEDIUM = 60, 24  # characters of a table's cell that need a wide column
TIED = re.compile(r" (?=±)|(?<=[±≤≥<>=]) (?=[\d.−-])|(?<=\d) (?=(?:ms|s|h|MB|GB|BLEU)\b)")  # spaces within a value


def main() -> int:
    """Stage, build and check the site; return the exit code."""
    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(ROOT / "docs", STAGED)
    (STAGED / MATH_FONT).write_bytes((files("ziamath") / "fonts" / MATH_FONT).read_bytes())
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
    problems = [*outside_navigation(), *check(SITE)]
    print(
        "\n".join(problems)
        or f"{len(list(SITE.rglob('*.html')))} pages in {SITE.relative_to(ROOT)}/, every link checked"
    )
    return int(bool(problems))


def write(path: Path, text: str) -> None:
    """Write a staged page, creating its folder if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def prepare(markdown: str, folder: Path) -> str:
    """Convert equations to MathML, inline figures, name repository files instead of linking them, mark short code."""
    markdown = LINK_TO_CODE.sub(lambda link: name_link(*link.groups()), markdown)
    markdown = TABLE.sub(lambda table: widen(*table.groups()), markdown)
    markdown = CODE.sub(lambda code: keep_whole(code[0]), markdown)
    return typeset(FIGURE.sub(lambda found: inline_figure(found[1], folder / found[2]), markdown))


def widen(head: str, line: str, body: str) -> str:
    """Mark the columns with long texts: on a phone, the table scrolls rather than squeezing them. Keep values whole."""
    plain = INLINE_CODE.sub(lambda code: "x" * len(code[0]), body)  # it may contain "|"
    rows = [re.split(r"(?<!\\)\|", row)[1:-1] for row in (head, *plain.splitlines())]
    cells = [f"{column[0]}{width(column)}" for column in zip(*rows, strict=True)]
    parts = re.split(f"({INLINE_CODE.pattern})", body)
    parts[::2] = [TIED.sub("\u00a0", part) for part in parts[::2]]
    return f"|{'|'.join(cells)}|\n{line}\n{''.join(parts)}"


def width(column: Sequence[str]) -> str:
    """The class of a column by its longest cell, as an attribute list."""
    longest = max(len(cell.strip()) for cell in column) if column[0].strip() else 0
    return "{ .wide } " if longest > LONG else "{ .medium } " if longest > MEDIUM else ""


def keep_whole(code: str) -> str:
    """Mark inline code or, if it is long, its words: browsers would break `--no-filter` and `GET /ready`."""
    if not code.startswith("`") or code.startswith("```") or not re.search("[- ]", code):
        return code
    if len(code) - 2 <= UNBROKEN:
        return f"{code}{{ .whole }}"
    words = re.findall(r"\S+", code[1:-1].replace(r"\|", "|"))
    return f"<code>{' '.join(map(keep_word_whole, words))}</code>"


def keep_word_whole(word: str) -> str:
    """A word of inline code as HTML, with every character that Markdown or TeX would read as an entity."""
    text = re.sub(r"[^\w.,/ =-]|_", lambda found: f"&#{ord(found[0])};", word)
    return f'<span class="whole">{text}</span>' if "-" in word and len(word) <= UNBROKEN else text


def inline_figure(alt: str, path: Path) -> str:
    """Inline an SVG, so that it follows the page's colour scheme."""
    svg = re.sub(r">\s*\n\s*", ">", path.read_text(encoding="utf-8")).replace("\n", " ")
    return f'<div class="drawing" title="{escape(alt)}">{svg}</div>'


def name_link(text: str, path: str) -> str:
    """Return the link's text, followed by the path unless the text already is a path."""
    return text if text.strip("`") in path and "/" in text else f"{text} (`{path}`)"


def repository() -> str:
    """URL of the repository: `LAMINA_REPOSITORY`, or the URL of `origin`, or empty."""
    given = os.environ.get("LAMINA_REPOSITORY")
    if given is None:
        command = ["git", "remote", "get-url", "origin"]
        given = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    found = re.fullmatch(r"(?:https://|git@)([\w.-]+)[:/]([\w./-]+?)(?:\.git)?/?", given)
    return f"https://{found[1]}/{found[2]}" if found else ""


def outside_navigation() -> list[str]:
    """List staged pages missing from `mkdocs.yml`."""
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(STAGED).as_posix() for page in STAGED.rglob("*.md")]
    return [f"mkdocs.yml: {page} is missing in `nav`" for page in pages if f": {page}\n" not in listed]


class Links(HTMLParser):
    """Collects a page's anchors, links and loaded resources."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect from a start tag."""
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(given.get("href", ""))
        if tag in ("script", "img", "iframe", "source"):
            self.loads.append(given.get("src") or given.get("srcset", ""))


def check(site: Path) -> list[str]:
    """List broken links, images and anchors, and resources from other hosts."""
    pages = {path.resolve(): Links() for path in site.rglob("*.html")}
    for path, links in pages.items():
        links.feed(path.read_text(encoding="utf-8"))
    problems = []
    for path, links in pages.items():
        name = path.relative_to(site.resolve())
        problems += [f"{name}: loads {url} from another host" for url in links.loads if re.match(r"(https?:)?//", url)]
        for url in {*links.links, *links.loads}:
            if re.match(r"[a-z]+:|//", url) or name.name == "404.html":
                continue
            file, _, anchor = url.partition("#")
            target = (path.parent / unquote(file)).resolve() if file else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                problems.append(f"{name}: {url} does not exist")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                problems.append(f"{name}: {url} has no such anchor")
    return sorted(problems)


if __name__ == "__main__":
    sys.exit(main())
