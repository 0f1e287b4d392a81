"""The judgement of one play: pure functions of the observations, without processes and clocks."""

from ao_conformance.judging.judge import judge

__all__ = ["judge"]
