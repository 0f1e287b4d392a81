"""The older contract of runners: what they register, are handed and report. Only its calls and the context know it."""
