"""Limit torch to one thread, and compile the engine before it is imported, since this selects its instruction set.

Hypothesis has no deadline: a busy machine is not a failure.
"""

from collections.abc import Iterator

import hypothesis
import pytest

from lamina.base.onednn import limit_instructions

limit_instructions()  # before torch's first product

import torch  # noqa: E402

from lamina.engine import cache  # noqa: E402
from lamina.engine.compilation import ready_folder  # noqa: E402

hypothesis.settings.register_profile("lamina", deadline=None)
hypothesis.settings.load_profile("lamina")
torch.set_num_threads(1)  # these models are too small to benefit from a second thread
ready_folder()


@pytest.fixture(autouse=True)
def one_thread_again() -> Iterator[None]:
    """Undo a test's choice of threads: with another number, training is not bit-identical."""
    yield
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def own_cache_of_lowered_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep lowered models out of the user's cache."""
    folder = tmp_path_factory.mktemp("programs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "user_cache", lambda _: folder)
        yield
