"""What is installed and what this machine offers; problems are reported, never raised."""

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

FOR_DEVELOPERS = ("dev", "docs", "all")  # extras that add nothing a user could miss
MODULES = {"PyYAML": "yaml"}  # packages that are imported by another name


@dataclass(frozen=True)
class Check:
    """One line of the report. Lamina works if everything that is needed does."""

    section: str
    name: str
    found: str
    works: bool = True
    needed: bool = True


@dataclass(frozen=True)
class Requirement:
    """A package that Lamina or one of its extras asks for, and the lowest version that will do."""

    package: str
    lowest: str
    extra: str | None

    def find(self) -> tuple[bool, str]:
        """Whether it can be imported and is new enough, and its version or what is wrong."""
        try:
            version = metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return False, "missing"
        if numbers(version) < numbers(self.lowest):
            return False, f"{version} is too old"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import_module(MODULES.get(self.package, self.package.lower().replace("-", "_")))
        except Exception as error:
            return False, f"{version} is broken ({one_line(error)})"
        return True, version


def examine() -> list[Check]:
    """All checks, in the order of the report."""
    return [*versions(), *devices(), *extras(), *places(), try_model(), try_engine()]


def examine_gpus() -> list[Check]:
    """A report to attach to a bug report: versions, GPUs, and how three systems train on the first, if there is one."""
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
    """Lamina, Python and required packages."""
    note = "" if requirements() else ", not installed as a package: requirements unknown"
    yield Check("versions", "lamina", f"{__version__}{note}")
    yield Check("versions", "python", platform.python_version())
    for requirement in requirements():
        if requirement.extra is None:
            works, found = requirement.find()
            fix = "" if works else f"; pip install '{requirement.package}>={requirement.lowest}'"
            yield Check("versions", requirement.package, f"{found}{fix}", works)


def extras() -> Iterator[Check]:
    """Each extra with its versions, or the line that installs it."""
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
    """What the installed package declares; nothing if Lamina runs from a folder that is not installed."""
    try:
        declared = metadata.requires("lamina") or []
    except metadata.PackageNotFoundError:
        return []
    pattern = re.compile(r"""(?P<package>[\w.-]+)[^;\d]*(?P<lowest>[\d.]*).*?(extra == ["'](?P<extra>[\w-]+)["'])?$""")
    matches = [match for match in map(pattern.match, declared) if match]
    return [Requirement(match["package"], match["lowest"], match["extra"]) for match in matches]


def devices() -> Iterator[Check]:
    """The processor, its memory and the GPUs, as torch sees them."""
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
    """An informative check; never required to work."""
    try:
        return Check("devices", name, ask(), needed=False)
    except Exception as error:
        return Check("devices", name, f"unknown ({one_line(error)})", works=False, needed=False)


def processor() -> str:
    """The processor's name."""
    with suppress(OSError):
        named = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        if named:
            return named[1]
    return platform.processor() or platform.machine()


def threads() -> str:
    """How many threads torch computes with."""
    import torch

    return f"{torch.get_num_threads()}"


def vectors() -> str:
    """The widest vector instructions that torch uses here: AVX2, AVX512 or others."""
    import torch

    return torch.backends.cpu.get_cpu_capability()


def onednn() -> str:
    """Whether torch's 16-bit products are limited on this CPU, and by whom."""
    limit = os.environ.get(VARIABLE)
    return "no limit" if limit is None else f"limited to {limit} ({VARIABLE})"


def engine() -> str:
    """The vector instructions of the CPU engine, and how it multiplies in 8 bits."""
    from lamina.base.cpu import chosen_set
    from lamina.engine.compilation import ready_folder

    ready_folder()
    chosen = chosen_set()
    return f"{chosen.name}, {chosen.lanes} lanes, int8 {'by VNNI' if chosen.vnni else 'widened to 16 bits'}"


def memory() -> str:
    """The memory of the machine."""
    return gigabytes(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def graphics() -> str:
    """The GPUs and their memory."""
    import torch

    each = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return ", ".join(f"{gpu.name} ({gigabytes(gpu.total_memory)})" for gpu in each) or "none"


def precision() -> str:
    """What `precision: auto` trains in: 16 bits on a GPU, bf16 if it can."""
    from lamina.base.devices import choose_device, choose_precision

    chosen = choose_precision("auto", choose_device("auto"))
    return chosen if chosen == "fp32" else f"{chosen} (AMP)"


def places() -> Iterator[Check]:
    """Room where the command is run."""
    try:
        yield Check("disk", "free space", gigabytes(shutil.disk_usage(Path.cwd()).free))
    except OSError as error:
        yield Check("disk", "free space", f"unknown ({one_line(error)})", works=False, needed=False)
    yield Check("disk", "cache", cached(), needed=False)


def cached() -> str:
    """Where compiled code and lowered models are kept, and how large they are."""
    kept = {name: user_cache(name) for name in ("engine", "programs")}
    found = []
    for name, folder in kept.items():
        files = [] if folder is None else [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        found.append(f"no cache folder for {name}" if folder is None else f"{folder} ({size / 1e6:,.1f} MB)")
    return ", ".join(found)


def try_model() -> Check:
    """A tiny model reads, learns and writes."""
    started = time.perf_counter()
    try:
        train_and_search()
    except Exception as error:
        return Check("self-test", "model", f"failed ({one_line(error)})", works=False)
    return Check("self-test", "model", f"ok, {time.perf_counter() - started:.2f} s")


def try_engine() -> Check:
    """The CPU engine translates as torch does, in 32 and in 8 bits."""
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
    """Forward, backward and a beam of two over one sentence; every gradient must be a number."""
    import torch

    from lamina.recipe.decode import SearchSettings
    from lamina.search.beam import beam_search
    from lamina.search.stepper import TorchStepper
    from lamina.systems.build import build

    model = build("surface-fusion", size="tiny", vocab_size=20, d_model=16, ffn_size=32, heads=2)
    source_BS, prefix_BT, target_BT = torch.tensor([[4, 5, 2]]), torch.tensor([[0, 6]]), torch.tensor([[6, 2]])
    model(source_BS, prefix_BT, target=target_BT).mean().backward()
    if not all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters()):
        raise ArithmeticError("a gradient is not a number")
    with torch.inference_mode():
        settings = SearchSettings(beam=2, max_length=(0.0, 1))
        beam_search(TorchStepper(model.eval()), source_BS, settings, model.start_id)


def gigabytes(count: int) -> str:
    """A readable number of bytes."""
    return f"{count / 1e9:,.1f} GB"


def numbers(version: str) -> tuple[int, ...]:
    """The first numbers of a version, to compare it with another."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def one_line(error: Exception) -> str:
    """An error's kind and the first line of what it says."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
