"""What one play says about the requirements: pure judgement of what was seen, no process and no clock."""

from ao_conformance.judging.judge import judge

__all__ = ["judge"]
