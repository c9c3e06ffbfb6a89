"""What `import lamina` offers: each command of the command line as a function. Importing it does not import torch."""
