"""The commands below `ao conformance`."""
