"""How two schemas differ, and whether what the first one accepts is still accepted by the second."""

from ao_runner.named_schemas.diff.comparison import Comparison, compare_schemas
from ao_runner.named_schemas.diff.effects import Effect
from ao_runner.named_schemas.diff.steps import Change, Difference

__all__ = ["Change", "Comparison", "Difference", "Effect", "compare_schemas"]
