"""Executors, and the toolkit to write them."""

from typing import Final

VERSION: Final = "1.0.0"
"""The version of this distribution; a test compares it with the installed metadata."""
