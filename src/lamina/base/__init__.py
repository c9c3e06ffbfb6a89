"""Files, reading, devices, memory and processes: what every other package builds on."""
