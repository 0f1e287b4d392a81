"""A list that many open pages show is rendered once for all of them."""

import asyncio
from types import SimpleNamespace
from typing import Any

from ao_server.pages.streaming import BETWEEN_LISTS_SECONDS, SharedList


def test_a_list_is_rendered_once_for_all_pages_that_have_asked_before() -> None:
    rendered: list[float] = []

    async def read(write: Any) -> str:
        await asyncio.sleep(0)
        return str(write(None))

    def write(_: object) -> str:
        rendered.append(asyncio.get_running_loop().time())
        return f"list {len(rendered)}"

    context: Any = SimpleNamespace(access=SimpleNamespace(read=read))

    async def ask() -> None:
        clock = asyncio.get_running_loop().time
        shared = SharedList(write)
        begin = clock()
        assert set(await asyncio.gather(*[shared.get(context, begin) for _ in range(200)])) == {"list 1"}
        assert await shared.get(context, clock()) == "list 2"  # a page that was opened later sees nothing older
        shared.at -= BETWEEN_LISTS_SECONDS + shared.seconds * 10
        assert await shared.get(context, begin) == "list 3"

    asyncio.run(ask())
