"""Find the JSON answer in what a model wrote."""

from ao_protocol.extraction.extract import extract_json
from ao_protocol.extraction.extraction_result import Extraction, NoJsonFound, Reason, Source

__all__ = ["Extraction", "NoJsonFound", "Reason", "Source", "extract_json"]
