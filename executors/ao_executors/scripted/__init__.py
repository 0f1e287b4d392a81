"""`ao-scripted-exec`: plays answers, delays, tool calls and faults from a script, for tests, demos and benchmarks."""
