"""The suite's own door to processes: bytes, split writes, slow reads, signals and clocks. It knows no protocol."""
