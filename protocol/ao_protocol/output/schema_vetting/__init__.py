"""Which schemas can be a contract: what is asked of one before anything is judged by it."""

from ao_protocol.output.schema_vetting.invalid_schema import InvalidSchema
from ao_protocol.output.schema_vetting.vetting import check_schema, plain_document, vetted_document

__all__ = ["InvalidSchema", "check_schema", "plain_document", "vetted_document"]
