"""Other toolkits' models in, and Lamina's models out."""
