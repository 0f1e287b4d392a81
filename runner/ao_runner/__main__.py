"""The entry point of `python -m ao_runner`, which is the command line `ao`."""

from ao_runner.cli import main

main()
