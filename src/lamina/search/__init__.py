"""Search: it sees a stepper and nothing else."""
