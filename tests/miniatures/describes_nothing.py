#!/usr/bin/env python3
"""Asked what it is, it answers with nonsense."""

print("I am an executor!")
