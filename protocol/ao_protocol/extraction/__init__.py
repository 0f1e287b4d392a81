"""Extraction of the JSON answer from the text of a model (SPEC 9.4)."""

from ao_protocol.extraction.extract import Extraction, Source, extract_json
from ao_protocol.extraction.strict_json import NoJsonFound, Reason

__all__ = ["Extraction", "NoJsonFound", "Reason", "Source", "extract_json"]
