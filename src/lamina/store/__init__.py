"""Everything that is on disk: runs, checkpoints, metrics and model folders."""
