"""One thread for torch, and compiled code before anything imports the engine: it decides for which vectors."""

import torch

from lamina.engine.compilation import ready_folder

torch.set_num_threads(1)  # these models are smaller than the cost of a second thread
ready_folder()
