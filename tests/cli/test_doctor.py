"""`lamina doctor` reports problems and never fails because of missing components."""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from typing import Any

import pytest
import submitit  # noqa: F401  its import closes all logging handlers, which must not have a captured stream by then
import torch

import lamina
from lamina import doctor
from support import run_lamina

EXTRAS = ["serve", "documents", "track", "rouge", "ctranslate2", "onnx", "hub", "cluster"]


def report(code: int) -> dict[str, Any]:
    result = run_lamina("doctor", "--json")
    assert (result.returncode, result.stderr) == (code, "")
    return json.loads(result.stdout)


def test_a_working_installation() -> None:
    found = report(code=0)
    assert list(found) == ["works", "versions", "devices", "extras", "disk", "self-test"]
    assert found["works"] is True
    assert found["versions"]["lamina"]["found"] == lamina.__version__
    assert found["versions"]["torch"]["found"] == torch.__version__
    assert {"numpy", "PyYAML", "subword-nmt", "typer"} <= found["versions"].keys()
    assert found["devices"]["threads"]["found"] == str(torch.get_num_threads())
    assert list(found["devices"]) == [
        "cpu",
        "cores",
        "threads",
        "vectors",
        "oneDNN",
        "engine",
        "memory",
        "cuda",
        "precision",
    ]
    assert list(found["extras"]) == EXTRAS
    assert re.fullmatch(r"[\d,]+\.\d GB", found["disk"]["free space"]["found"])
    sizes = r".*/engine \([\d,]+\.\d MB\), .*/programs \([\d,]+\.\d MB\)"
    assert re.fullmatch(sizes, found["disk"]["cache"]["found"])
    assert float(re.fullmatch(r"ok, (.*) s", found["self-test"]["model"]["found"])[1]) < 2
    assert re.fullmatch(r"ok, (.*) s", found["self-test"]["engine"]["found"])
    assert re.fullmatch(r".*, (4|8|16) lanes, int8 (with VNNI|widened to 16 bits)", found["devices"]["engine"]["found"])


def test_columns_are_aligned() -> None:
    result = run_lamina("doctor")
    *lines, blank, verdict = result.stdout.splitlines()
    assert (blank, verdict) == ("", "All required components work.")
    sections = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert sections == ["versions", "devices", "extras", "disk", "self-test"]
    assert len({re.match(r"\S*\s+", line).end() for line in lines}) == 1


def test_a_broken_dependency_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = report(code=1)
    version = metadata.version("torch")
    broken = f"{version} is broken (ModuleNotFoundError: import of torch halted; None in sys.modules)"
    assert found["versions"]["torch"]["found"] == f"{broken}; pip install 'torch>=2.6'"
    assert found["self-test"]["model"]["works"] is False
    assert found["devices"]["threads"]["found"].startswith("unknown (ModuleNotFoundError")
    assert run_lamina("doctor").stdout.endswith("\nNot working: torch, model, engine.\n")


def test_a_missing_dependency_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    version = metadata.version

    def pretend(package: str) -> str:
        if package in ("rich", "tensorboard"):
            raise metadata.PackageNotFoundError(package)
        return {"numpy": "1.25.2", "sentencepiece": "0.2.3"}.get(package) or version(package)

    monkeypatch.setattr(metadata, "version", pretend)
    found = report(code=1)
    assert found["versions"]["rich"]["found"] == "missing; pip install 'rich>=13.7'"
    assert found["versions"]["numpy"]["found"] == "1.25.2 is too old; pip install 'numpy>=1.26'"
    limits = "; pip install 'sentencepiece>=0.2,<0.2.3'"
    assert found["versions"]["sentencepiece"]["found"] == f"0.2.3 is too new{limits}"
    assert found["extras"]["track"] == {
        "found": "tensorboard missing; pip install 'lamina[track]'",
        "works": False,
        "needed": False,
    }


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("torch>=2.6", doctor.Requirement("torch", "2.6", None, None)),
        ("sentencepiece<0.2.3,>=0.2", doctor.Requirement("sentencepiece", "0.2", "0.2.3", None)),
        (
            """uvloop>=0.19; sys_platform < "4" and extra == 'serve'""",
            doctor.Requirement("uvloop", "0.19", None, "serve"),
        ),
        ("types-PyYAML ; extra == 'dev'", doctor.Requirement("types-PyYAML", "0", None, "dev")),
    ],
)
def test_requirements_are_read_in_any_order(line: str, wanted: doctor.Requirement) -> None:
    assert doctor.parse_requirement(line) == wanted


def test_a_missing_extra_is_not_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "FOR_DEVELOPERS", (*doctor.FOR_DEVELOPERS, *(set(EXTRAS) - {"rouge"})))
    monkeypatch.setattr(doctor.Requirement, "find", lambda each: (each.extra is None, "missing"))
    assert report(code=0)["extras"] == {
        "rouge": {"found": "rouge-score missing; pip install 'lamina[rouge]'", "works": False, "needed": False}
    }


def test_a_failing_model_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ArithmeticError("a gradient is not finite\nand more")

    monkeypatch.setattr(doctor, "train_and_search", fail)
    finding = report(code=1)["self-test"]["model"]
    assert finding["found"] == "failed (ArithmeticError: a gradient is not finite)"


def test_without_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(package: str) -> list[str]:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "requires", fail)
    found = report(code=0)["versions"]["lamina"]["found"]
    assert found == f"{lamina.__version__}, not installed as a package: requirements unknown"
