"""The report of `lamina prepare`, as Markdown."""

from __future__ import annotations

from typing import Any

from lamina.corpus.filters import REASONS, Filters


def write_report(meta: dict[str, Any], filters: Filters) -> str:
    """Format `report.md` from the content of `meta.json`."""
    plan = meta["plan"]
    source, target = plan["languages"]
    lines = [f"# Prepared data: {source} → {target}", ""]
    lines += ["| split | pairs | source tokens | target tokens |", "|---|---|---|---|"]
    for name, split in meta["splits"].items():
        tokens = split["tokens"]
        lines.append(f"| {name} | {split['pairs']:,} | {tokens['source']:,} | {tokens['target']:,} |")
    lines += ["", "Tokens include one eos per sentence.", "", "## Vocabulary", ""]
    sizes = meta["vocabulary"]
    if meta["shared_vocabulary"]:
        entries = f"shared by both sides: {sizes['source']:,} entries"
    else:
        entries = f"one per side: {sizes['source']:,} entries (source), {sizes['target']:,} (target)"
    lines.append(f"{meta['subwords']}, {entries}.")
    asked = plan["vocab_size"]
    if asked is not None and max(sizes.values()) < asked:
        lines.append(f"You asked for {asked:,}; this text yields only {max(sizes.values()):,}.")
    if meta["max_source"] is not None:
        counts = ", ".join(f"{split['truncated']:,} of {name}" for name, split in meta["splits"].items())
        lines += ["", "## Truncated", "", f"Sources of more than {meta['max_source']:,} subwords: {counts}."]
    lines += ["", "## Dropped from the training data", ""]
    lines += ["| reason | pairs | first lines |", "|---|---|---|"]
    for reason in REASONS:
        rule = filters.describe(reason) if reason in filters.active else "disabled"
        dropped = meta["dropped"][reason]
        first = ", ".join(f"{line:,}" for line in dropped["first_lines"])
        lines.append(f"| {reason}: {rule} | {dropped['pairs']:,} | {first or '–'} |")
    lines += ["", "Validation and test pairs are never dropped."]
    return "\n".join(lines) + "\n"
