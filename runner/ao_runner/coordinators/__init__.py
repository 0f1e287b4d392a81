"""Whatever hands out runs and takes events: one small port, and one module for each that speaks it."""
