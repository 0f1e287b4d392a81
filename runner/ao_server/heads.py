"""HEAD: the status and the headers of GET."""

from typing import Final

from ao_runner.connections import Application, Message, Receive, Send

NOT_READ_ONLY: Final = "/runner/"
"""The poll of a runner takes a run."""


class Heads:
    """The ASGI middleware that answers HEAD as GET without its body. A stream ends at its begin."""

    def __init__(self, inside: Application) -> None:
        self._inside = inside

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"].startswith(NOT_READ_ONLY):
            await self._inside(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body"})  # whoever waits for the end of the connection hears of it

        await self._inside({**scope, "method": "GET"}, receive, send_head)
