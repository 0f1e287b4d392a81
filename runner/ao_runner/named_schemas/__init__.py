"""Named schemas: store, compare and check them, and create them from pydantic models."""
