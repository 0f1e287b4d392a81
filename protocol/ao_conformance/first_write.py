"""What is written to an executable first: how it is cut, and the invocation that is in it."""

from collections.abc import Iterator, Mapping

from ao_protocol.framing import NotIJson, decode_object


def invocation_in(data: bytes) -> Mapping[str, object] | None:
    """Return the invocation on the first line that is not blank, where there is one that every reader accepts."""
    line = next((line for line in data.split(b"\n") if line.strip()), b"")
    try:
        return decode_object(line.removesuffix(b"\r"))
    except NotIJson:
        return None


def cut(data: bytes, how: str) -> Iterator[bytes]:
    """Yield the pieces of a first write, as a vector wants it to be cut."""
    begin = 0
    for end in range(1, len(data)):
        if (
            how == "bytes"
            or (how == "inside_characters" and data[end] & 0xC0 == 0x80)
            or (how == "line_ends" and data[end - 1 : end + 1] == b"\r\n")
        ):
            yield data[begin:end]
            begin = end
    yield data[begin:]
