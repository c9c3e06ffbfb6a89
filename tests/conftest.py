import torch

torch.set_num_threads(1)  # these models are smaller than the cost of a second thread
