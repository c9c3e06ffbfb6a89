"""Files, devices, memory and processes: the layer below every other package."""
