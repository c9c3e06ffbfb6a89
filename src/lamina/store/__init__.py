"""Everything on disk: runs, checkpoints, metrics and model folders."""
