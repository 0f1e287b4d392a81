"""`python -m ao_model_simulator SCRIPT`, for use without the `ao` command."""

from ao_model_simulator.cli import command

if __name__ == "__main__":
    command(prog_name="model-sim")
