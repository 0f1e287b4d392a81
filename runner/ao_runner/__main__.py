"""`python -m ao_runner` is the command line `ao`."""

from ao_runner.cli import main

main()
