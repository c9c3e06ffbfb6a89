"""The parts every system is built from."""
