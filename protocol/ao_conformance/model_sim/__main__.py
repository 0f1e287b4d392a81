"""`python -m ao_conformance.model_sim SCRIPT`, for where the `ao` command is not installed."""

from ao_conformance.model_sim.cli import command

if __name__ == "__main__":
    command(prog_name="model-sim")
