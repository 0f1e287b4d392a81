"""Processes of the machine: started, kept together, and ended with everything that they started."""
