"""Named schemas: kept, compared, remarked on, and made from and into pydantic models."""
