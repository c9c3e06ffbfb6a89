"""What mkdocs calls while it builds the site; `mkdocs.yml` names this file under `hooks`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

LINK_TO_CODE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([\w/.-]+\.(?:py|yaml)|README\.md)\)")
FROM_OUTSIDE = re.compile(r'<(?:script|img|iframe)[^>]+src="?(?:https?:)?//|<link[^>]+href="?(?:https?:)?//')


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Every page of `docs/corpora` stands in the navigation."""
    docs = Path(config.docs_dir)
    for section in config.nav or []:
        if "Corpora" in section:
            section["Corpora"] += sorted(page.relative_to(docs).as_posix() for page in docs.glob("corpora/*.md"))
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The generated pages join the written ones."""
    for name, lines in reference.pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content="\n".join(lines) + "\n"))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A link to a file of the repository becomes its name: the site holds no source files."""
    return LINK_TO_CODE.sub(r"\1 (`\2`)", markdown)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The site is read without a network."""
    if found := FROM_OUTSIDE.search(output):
        raise PluginError(f"{page.file.src_uri}: loads something from elsewhere: {found.group()}")
    return output
