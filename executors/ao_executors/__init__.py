"""Executors, and the toolkit that they are made with."""

from typing import Final

VERSION: Final = "0.1.0"
"""The version of this distribution; a test holds it against the installed metadata."""
