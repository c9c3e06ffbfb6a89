"""The typed recipe, and every problem with one."""
