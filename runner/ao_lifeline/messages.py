"""What runner, keeper and lifeline say to each other, one datagram each, marshalled: all three are the same Python.

| from, to | message |
| --- | --- |
| runner to keeper | `("start", number, leaf)` with five descriptors: the program's stdin, stdout and stderr, the lifeline's end of the line, and an anonymous file with the program, which may be large |
| keeper to runner | the number, when there is a lifeline: orders that were lost with their keeper have started nothing |
| runner to keeper | `("cut", number)`: kill that lifeline, which does not obey any more |
| runner to lifeline | single bytes, the numbers of signals; SIGKILL means all that is below, and so does the end of the line |
| lifeline to runner | one of `("failed", errno, what_failed)` and `("ended", wait_status, was_in_leaf)`, when nothing is left |

The file holds `(argv, environment, cwd, limits)`, all text as bytes, each limit as `(name, number, soft, hard)`.
"""  # noqa: E501  # a table

Message = int | tuple[str | int | None, ...]

MAX_MESSAGE_BYTES = 16 * 1024
DESCRIPTORS = 5
