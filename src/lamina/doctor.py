"""Checks of the installation and the machine; problems are reported, never raised."""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path

from lamina.base.files import user_cache
from lamina.base.onednn import VARIABLE
from lamina.version import __version__

FOR_DEVELOPERS = ("dev", "docs", "all")  # extras not reported to users
MODULES = {"PyYAML": "yaml"}  # packages whose import name differs


@dataclass(frozen=True)
class Check:
    """One line of the report; Lamina works if all `needed` checks do."""

    section: str
    name: str
    found: str
    works: bool = True
    needed: bool = True


@dataclass(frozen=True)
class Requirement:
    """A package that Lamina or one of its extras requires, with its minimum version and the first excluded one."""

    package: str
    lowest: str
    excluded: str | None
    extra: str | None

    def __str__(self) -> str:
        return f"{self.package}>={self.lowest}" + (f",<{self.excluded}" if self.excluded else "")

    def find(self) -> tuple[bool, str]:
        """Return whether the package works, and its version or the problem."""
        try:
            version = metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return False, "missing"
        if numbers(version) < numbers(self.lowest):
            return False, f"{version} is too old"
        if self.excluded is not None and numbers(version) >= numbers(self.excluded):
            return False, f"{version} is too new"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import_module(MODULES.get(self.package, self.package.lower().replace("-", "_")))
        except Exception as error:
            return False, f"{version} is broken ({one_line(error)})"
        return True, version


def examine() -> list[Check]:
    """Run all checks, in report order."""
    return [*versions(), *devices(), *extras(), *places(), try_model(), try_engine()]


def examine_gpus() -> list[Check]:
    """Report for bug reports: versions, GPUs, and short training trials of three systems on the first GPU, if any."""
    import torch

    found = [*versions(), *devices()]
    found.append(inform("cuda version", lambda: f"torch {torch.__version__}, CUDA {torch.version.cuda or 'none'}"))
    if not torch.cuda.is_available():
        reason = "no GPU found, or torch was installed without CUDA; nothing was tested"
        return [*found, Check("gpu", "trials", reason, works=False)]
    from lamina.bench.gpu import try_gpu

    for trial in try_gpu(torch.device("cuda", 0)):
        numbers = f"loss {trial.first_loss:.3f} → {trial.last_loss:.3f} (CPU {trial.cpu_loss:.3f})"
        speed = f"{trial.milliseconds:.1f} ms per update, {trial.gigabytes:.2f} GB"
        name = f"{trial.system} {trial.precision}"
        found.append(Check("gpu", name, f"{trial.verdict}: {numbers}, {speed}", works=trial.verdict == "ok"))
    return found


def versions() -> Iterator[Check]:
    """Versions of Lamina, Python and required packages."""
    note = "" if requirements() else ", not installed as a package: requirements unknown"
    yield Check("versions", "lamina", f"{__version__}{note}")
    yield Check("versions", "python", platform.python_version())
    for requirement in requirements():
        if requirement.extra is None:
            works, found = requirement.find()
            fix = "" if works else f"; pip install '{requirement}'"
            yield Check("versions", requirement.package, f"{found}{fix}", works)


def extras() -> Iterator[Check]:
    """Versions of each extra's packages, or the command that installs it."""
    packages: dict[str, list[Requirement]] = {}
    for requirement in requirements():
        if requirement.extra is not None and requirement.extra not in FOR_DEVELOPERS:
            packages.setdefault(requirement.extra, []).append(requirement)
    for extra, each in packages.items():
        results = [(requirement.package, *requirement.find()) for requirement in each]
        found = ", ".join(f"{package} {state}" for package, _, state in results)
        works = all(works for _, works, _ in results)
        fix = "" if works else f"; pip install 'lamina[{extra}]'"
        yield Check("extras", extra, f"{found}{fix}", works, needed=False)


def requirements() -> list[Requirement]:
    """Requirements from the package metadata; empty if Lamina is not installed."""
    try:
        declared = metadata.requires("lamina") or []
    except metadata.PackageNotFoundError:
        return []
    return [parse_requirement(line) for line in declared]


def parse_requirement(line: str) -> Requirement:
    """A requirement such as `numpy<3,>=1.26; extra == "x"`; its bounds may have any order."""

    def find(pattern: str) -> str | None:
        match = re.search(pattern, line)
        return match[1] if match else None

    lowest, excluded = find(r"^[^;]*>=\s*([\d.]+)") or "0", find(r"^[^;]*<\s*([\d.]+)")
    return Requirement(find(r"^([\w.-]+)") or line, lowest, excluded, find(r"""extra == ["']([\w-]+)["']"""))


def devices() -> Iterator[Check]:
    """CPU, memory and GPUs, as torch sees them."""
    yield inform("cpu", processor)
    yield inform("cores", lambda: f"{os.cpu_count()}")
    yield inform("threads", threads)
    yield inform("vectors", vectors)
    yield inform("oneDNN", onednn)
    yield inform("engine", engine)
    yield inform("memory", memory)
    yield inform("cuda", graphics)
    yield inform("precision", precision)


def inform(name: str, ask: Callable[[], str]) -> Check:
    """Make an informative check; failure to determine the value is not an error."""
    try:
        return Check("devices", name, ask(), needed=False)
    except Exception as error:
        return Check("devices", name, f"unknown ({one_line(error)})", works=False, needed=False)


def processor() -> str:
    """CPU model name."""
    with suppress(OSError):
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        if match:
            return match[1]
    return platform.processor() or platform.machine()


def threads() -> str:
    """Number of threads torch uses."""
    import torch

    return f"{torch.get_num_threads()}"


def vectors() -> str:
    """The widest vector instructions that torch uses here: AVX2, AVX512 or others."""
    import torch

    return torch.backends.cpu.get_cpu_capability()


def onednn() -> str:
    """Whether oneDNN's instruction set is limited, which affects 16-bit matrix products."""
    limit = os.environ.get(VARIABLE)
    return "no limit" if limit is None else f"limited to {limit} ({VARIABLE})"


def engine() -> str:
    """Instruction set of the CPU engine and its int8 kernel."""
    from lamina.base.cpu import chosen_set
    from lamina.engine.compilation import ready_folder

    ready_folder()
    chosen = chosen_set()
    return f"{chosen.name}, {chosen.lanes} lanes, int8 {'with VNNI' if chosen.vnni else 'widened to 16 bits'}"


def memory() -> str:
    """Total RAM."""
    return gigabytes(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def graphics() -> str:
    """The GPUs and their memory."""
    import torch

    each = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return ", ".join(f"{gpu.name} ({gigabytes(gpu.total_memory)})" for gpu in each) or "none"


def precision() -> str:
    """Training precision that `precision: auto` selects: 16 bits on a GPU, bf16 if supported."""
    from lamina.base.devices import choose_device, choose_precision

    chosen = choose_precision("auto", choose_device("auto"))
    return chosen if chosen == "fp32" else f"{chosen} (AMP)"


def places() -> Iterator[Check]:
    """Free disk space in the current directory, and the caches."""
    try:
        yield Check("disk", "free space", gigabytes(shutil.disk_usage(Path.cwd()).free))
    except OSError as error:
        yield Check("disk", "free space", f"unknown ({one_line(error)})", works=False, needed=False)
    yield Check("disk", "cache", cached(), needed=False)


def cached() -> str:
    """Locations and sizes of the caches of compiled code and lowered models."""
    folders = {name: user_cache(name) for name in ("engine", "programs")}
    found = []
    for name, folder in folders.items():
        files = [] if folder is None else [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        found.append(f"no cache folder for {name}" if folder is None else f"{folder} ({size / 1e6:,.1f} MB)")
    return ", ".join(found)


def try_model() -> Check:
    """Train a tiny model for one step and decode with it."""
    started = time.perf_counter()
    try:
        train_and_search()
    except Exception as error:
        return Check("self-test", "model", f"failed ({one_line(error)})", works=False)
    return Check("self-test", "model", f"ok, {time.perf_counter() - started:.2f} s")


def try_engine() -> Check:
    """Check that the CPU engine translates like torch, in fp32 and int8."""
    started = time.perf_counter()
    try:
        from lamina.engine.compilation import ready_folder

        ready_folder()
        from lamina.engine.selftest import find_difference

        problem = find_difference()
    except Exception as error:
        problem = one_line(error)
    if problem:
        return Check("self-test", "engine", f"failed ({problem})", works=False)
    return Check("self-test", "engine", f"ok, {time.perf_counter() - started:.2f} s")


def train_and_search() -> None:
    """Run forward, backward and beam search on one sentence; every gradient must be finite."""
    import torch

    from lamina.recipe.decode import SearchSettings
    from lamina.search.beam import beam_search
    from lamina.search.stepper import TorchStepper
    from lamina.systems.build import build

    model = build("surface-fusion", size="tiny", vocab_size=20, d_model=16, ffn_size=32, heads=2)
    source_BS, prefix_BT, target_BT = torch.tensor([[4, 5, 2]]), torch.tensor([[0, 6]]), torch.tensor([[6, 2]])
    model(source_BS, prefix_BT, target=target_BT).mean().backward()
    if not all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters()):
        raise ArithmeticError("a gradient is not finite")
    with torch.inference_mode():
        settings = SearchSettings(beam=2, max_length=(0.0, 1))
        beam_search(TorchStepper(model.eval()), source_BS, settings, model.start_id)


def gigabytes(count: int) -> str:
    """Format a number of bytes in GB."""
    return f"{count / 1e9:,.1f} GB"


def numbers(version: str) -> tuple[int, ...]:
    """Parse the first three numbers of a version for comparison."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def one_line(error: Exception) -> str:
    """Type and first line of an error's message."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
