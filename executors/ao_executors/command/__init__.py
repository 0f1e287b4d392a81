"""`ao-command-exec`: any configured program that reads a prompt and prints an answer."""
