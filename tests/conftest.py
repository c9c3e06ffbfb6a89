"""One thread for torch, and compiled code before anything imports the engine: it decides for which vectors."""

from lamina.base.onednn import limit_instructions

limit_instructions()  # before torch's first product

import torch  # noqa: E402

from lamina.engine.compilation import ready_folder  # noqa: E402

torch.set_num_threads(1)  # these models are smaller than the cost of a second thread
ready_folder()
