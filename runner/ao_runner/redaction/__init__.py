"""Secrets taken out of what is shown, kept and sent."""
