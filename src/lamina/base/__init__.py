"""Files, reading, devices, memory and processes: the basis of every other package."""
