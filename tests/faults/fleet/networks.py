"""Networks of hosts in this machine: network namespaces that are gone with the test, and cables that can be cut."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Final, Self

import pytest

SERVER: Final = "10.9.0.1"
"""The address of this process, and of what it starts, for every host."""

_NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET
_LIBRARY: Final = ctypes.CDLL(None, use_errno=True)


class Network:
    """A namespace for this thread and what it starts, and one for each host, which has a cable to the first one."""

    def __enter__(self) -> Self:
        if shutil.which("ip") is None:
            pytest.skip(
                "ip is not on PATH, and connects network namespaces; .ci/toolchains installs it on Debian, as root"
            )
        with ExitStack() as stack:
            before = stack.enter_context(_descriptor_of_current())
            if _LIBRARY.unshare(_NEW_NETWORK) != 0:
                pytest.skip(f"network namespaces cannot be made here: {os.strerror(ctypes.get_errno())}")
            stack.callback(_enter, before)
            self._own = stack.enter_context(_descriptor_of_current())
            self._hosts: list[int] = []
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add_host(self) -> int:
        """Connect one more host by a cable and return its number."""
        number = len(self._hosts) + 1
        _LIBRARY.unshare(_NEW_NETWORK)
        there = self._stack.enter_context(_descriptor_of_current())
        _enter(self._own)
        self._hosts.append(there)
        address, here = self.address(number), f"host-{number}"
        _ip(f"link add {here} type veth peer name eth0 netns /proc/{os.getpid()}/fd/{there}")
        _ip(f"address add {SERVER} peer {address} dev {here}")
        _ip(f"link set {here} up")
        with self.inside(number):
            _ip(f"address add {address} peer {SERVER} dev eth0")
            _ip("link set eth0 up")
        return number

    def address(self, number: int) -> str:
        """Return the address of a host."""
        return f"10.9.0.{number + 1}"

    @contextmanager
    def inside(self, number: int) -> Iterator[None]:
        """Make the block, and what it starts, a part of a host."""
        _enter(self._hosts[number - 1])
        try:
            yield
        finally:
            _enter(self._own)

    def has(self, number: int, pid: int) -> bool:
        """Return whether a process is a part of a host."""
        with suppress(OSError):  # it has just left
            return os.stat(f"/proc/{pid}/ns/net").st_ino == os.fstat(self._hosts[number - 1]).st_ino  # noqa: PTH116
        return False

    def cut(self, number: int) -> None:
        """Cut the cable of a host: nothing arrives any more, and nobody is told."""
        _ip(f"link set host-{number} down")

    def silence(self, number: int) -> None:
        """Let nothing leave a host any more: as one without power, it does not even refuse a connection."""
        with self.inside(number):
            _ip(f"route replace blackhole {SERVER}")

    def mend(self, number: int) -> None:
        """Connect the host again."""
        _ip(f"link set host-{number} up")


@contextmanager
def _descriptor_of_current() -> Iterator[int]:
    descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _enter(descriptor: int) -> None:
    if _LIBRARY.setns(descriptor, _NEW_NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "cannot enter a network namespace")


def _ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True, capture_output=True)  # noqa: S607  # of the machine
