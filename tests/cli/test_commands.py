"""End-to-end tests of commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lamina.store.model_folder import load_model_folder
from support import run_lamina as run

FIXTURE = Path(__file__).parents[1] / "golden" / "fixtures" / "sf_readme_defaults"


@pytest.mark.parametrize("arguments", [["--help"], ["systems"], ["prepare", "--help"], ["doctor", "--help"]])
def test_torch_is_imported_only_where_needed(arguments: list[str]) -> None:
    watch = "import sys, atexit; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr));"
    script = f"{watch} sys.argv[1:] = {arguments!r}; from lamina.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0
    assert result.stderr.splitlines()[-1] == "False"
    imported = subprocess.check_output([sys.executable, "-c", "import lamina, sys; print('torch' in sys.modules)"])
    assert imported.strip() == b"False"


def test_systems_lists_every_system() -> None:
    result = run("systems")
    assert result.returncode == 0
    names = [line.split()[0] for line in result.stdout.splitlines()[1:18]]
    expected = (
        "transformer transformer-post transparent fine-grained layerwise aggregation coordination dlcl block-scale"
    )
    assert names[:9] == expected.split()
    assert names[9:14] == ["msc", "surface-fusion", "average-attention", "merged-attention", "msc-surface"]
    assert names[14:] == ["pointer-generator", "hierarchical", "depth-growing"]
    for bridge in ("collaborative", "layerwise", "blocks"):  # those that do not work with every encoder
        assert f"`{bridge}`" in "".join(result.stdout.splitlines()[-3:])


def test_systems_as_json() -> None:
    entries = json.loads(run("systems", "--json").stdout)
    assert len(entries) == 17
    keys = ["name", "paper", "encoder", "bridge", "head", "decoder", "norm", "init", "configurations"]
    assert all(list(entry) == keys for entry in entries)
    msc = next(entry for entry in entries if entry["name"] == "msc")
    assert (msc["encoder"], msc["bridge"], msc["head"], msc["norm"]) == ("msc", "collaborative", "softmax", "pre")
    assert {each["name"] for each in msc["configurations"]} >= {"msc-6", "msc-36", "msc-54", "msc-72"}


def test_a_configuration_as_json() -> None:
    entry = json.loads(run("systems", "msc-72", "--json").stdout)
    assert entry["name"] == "msc-72"
    assert (entry["system"], entry["size"], entry["encoder_layers"], entry["vocab_size"]) == ("msc", "small", 72, 10124)
    assert entry["parameters"] == pytest.approx(76.6e6, rel=0.005)


def test_one_system_as_text() -> None:
    result = run("systems", "transformer")
    assert "transformer-small  10,500,096 parameters (paper: 10.5M)" in result.stdout


def test_errors_are_one_line_and_an_exit_code() -> None:
    result = run("systems", "mcs-72")
    assert (result.returncode, result.stdout) == (2, "")
    expected = "lamina: Unknown system `mcs-72`. Did you mean `msc-72`? `lamina systems` lists all systems.\n"
    assert result.stderr == expected
    debug = run("systems", "mcs-72", "--debug")
    assert "Traceback" in debug.stderr


def import_fixture(out: Path, **changes: Path) -> subprocess.CompletedProcess[str]:
    paths = {
        "checkpoint": FIXTURE / "checkpoint_best.pt",
        "source": FIXTURE / "dict.en.txt",
        "target": FIXTURE / "dict.ro.txt",
        **changes,
    }
    dictionaries = ["--source-dict", paths["source"], "--target-dict", paths["target"]]
    return run("import-fairseq", paths["checkpoint"], *dictionaries, "--out", out)


def test_import_fairseq(tmp_path: Path) -> None:
    result = import_fixture(tmp_path / "en-ro")
    assert result.returncode == 0, result.stderr
    assert "stack × top × surface" in result.stdout
    assert result.stderr == f"Next: lamina translate {tmp_path / 'en-ro'}\n"
    assert load_model_folder(tmp_path / "en-ro").model.config.head.gate == 0.8
    again = import_fixture(tmp_path / "en-ro")
    assert again.returncode == 2
    assert "already exists" in again.stderr


def test_import_fairseq_rejects_bad_files(tmp_path: Path) -> None:
    missing = import_fixture(tmp_path / "a", checkpoint=tmp_path / "none.pt")
    assert missing.returncode == 3
    assert missing.stderr == f"lamina: {tmp_path / 'none.pt'}: not found.\n"
    swapped = import_fixture(tmp_path / "b", checkpoint=FIXTURE / "dict.en.txt")
    assert swapped.returncode == 3
    assert "Traceback" not in swapped.stderr
    assert not list(tmp_path.iterdir())
