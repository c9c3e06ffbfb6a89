"""What `lamina bench` measures."""
