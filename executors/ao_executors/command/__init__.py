"""`ao-command-exec`: any program that takes a prompt and prints an answer, by configuration."""
