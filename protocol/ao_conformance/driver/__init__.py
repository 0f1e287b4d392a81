"""The suite's own access to processes: bytes, split writes, slow reads, signals and clocks, without the protocol."""
