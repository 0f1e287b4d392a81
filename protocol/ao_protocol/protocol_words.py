"""The words that events are made of. One of them is never taken for a secret, or an event would cease to be one."""

import re
from typing import Final, Literal, get_args, get_origin

from ao_protocol.errors import ErrorType
from ao_protocol.events import (
    BODIES,
    Envelope,
    ErrorInfo,
    ExecutorIdentity,
    OutputSummary,
    RetryError,
    TextBlock,
    UsageFigures,
)
from ao_protocol.events.envelope import UTC_TIME

_STOP_REASONS: Final = frozenset(
    {"end_turn", "max_tokens", "model_context_window_exceeded", "refusal", "stop_sequence", "completed"}
)
"""Those that section 5 names; the list is open."""


def _protocol_words() -> frozenset[str]:
    words = {"event_type", *BODIES, *map(str, ErrorType), *_STOP_REASONS}
    parts = (Envelope, TextBlock, ExecutorIdentity, ErrorInfo, RetryError, OutputSummary, UsageFigures)
    for model in (*parts, *BODIES.values()):
        for name, field in model.model_fields.items():
            words.add(name)
            if get_origin(field.annotation) is Literal:
                words.update(get_args(field.annotation))
    return frozenset(words)


PROTOCOL_WORDS: Final = _protocol_words()
is_time: Final = re.compile(UTC_TIME).fullmatch
