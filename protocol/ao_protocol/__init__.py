"""The AO executor protocol in Python: documents, rules and texts, without processes, sockets, threads or event loops.

The names in `__all__` are public, and docs/python.md lists them. All other modules and names are internal and may
change in any release. A public name is imported at its first use, so `import ao_protocol` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ao_protocol.contracts import InvalidSchema, Problem, check_schema, validate
    from ao_protocol.documents import (
        Blueprint,
        Description,
        InvalidDescription,
        Invocation,
        InvocationRefused,
        invocation_from_document,
        parse_description,
    )
    from ao_protocol.errors import ErrorType, ExitCode
    from ao_protocol.events import Event, InvalidEvent, check_event, parse_event
    from ao_protocol.extraction import Extraction, NoJsonFound, extract_json
    from ao_protocol.framing import LineSplitter, LineTooLong, NotIJson, decode_object, encode_line
    from ao_protocol.lifecycle import LifecycleError, RunLifecycle
    from ao_protocol.published import load_schema
    from ao_protocol.redaction import Redactor

    __version__: str

_HOMES: Final = {
    "documents": (
        "Blueprint",
        "Description",
        "InvalidDescription",
        "Invocation",
        "InvocationRefused",
        "invocation_from_document",
        "parse_description",
    ),
    "errors": ("ErrorType", "ExitCode"),
    "events": ("Event", "InvalidEvent", "check_event", "parse_event"),
    "framing": ("LineSplitter", "LineTooLong", "NotIJson", "decode_object", "encode_line"),
    "lifecycle": ("LifecycleError", "RunLifecycle"),
    "contracts": ("InvalidSchema", "Problem", "check_schema", "validate"),
    "extraction": ("Extraction", "NoJsonFound", "extract_json"),
    "published": ("load_schema",),
    "redaction": ("Redactor",),
}
"""The public names by the module that defines them."""
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Blueprint",
    "Description",
    "ErrorType",
    "Event",
    "ExitCode",
    "Extraction",
    "InvalidDescription",
    "InvalidEvent",
    "InvalidSchema",
    "Invocation",
    "InvocationRefused",
    "LifecycleError",
    "LineSplitter",
    "LineTooLong",
    "NoJsonFound",
    "NotIJson",
    "Problem",
    "Redactor",
    "RunLifecycle",
    "__version__",
    "check_event",
    "check_schema",
    "decode_object",
    "encode_line",
    "extract_json",
    "invocation_from_document",
    "load_schema",
    "parse_description",
    "parse_event",
    "validate",
]


if not TYPE_CHECKING:  # otherwise a type checker would accept every name

    def __getattr__(name: str) -> object:
        """Import a public name at its first use (PEP 562)."""
        if name == "__version__":
            from importlib.metadata import version

            return version("ao-executor-protocol")
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}; its names are {', '.join(__all__)}")
        return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
