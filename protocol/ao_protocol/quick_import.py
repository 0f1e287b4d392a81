"""Let a program of this package import its modules with less CPU. For the entry points of programs only. Internal."""

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import Final

_MODULE: Final = "pydantic.plugin._loader"


class _NoPlugins(ModuleType):
    """Stands for the module with which pydantic searches all installed packages for plugins; these programs use none.

    The search and its own imports take 10 ms. Whatever else is asked of the module is asked of the real one.
    """

    get_plugins = tuple

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(_MODULE) is self:
            del sys.modules[_MODULE]
        return getattr(import_module(_MODULE), name)


def begin_imports() -> None:
    """Collect no garbage until `end_imports`: imports make none, and collections take 7 % of their time."""
    sys.modules.setdefault(_MODULE, _NoPlugins(_MODULE))
    gc.disable()


def end_imports() -> None:
    """Collect garbage again, without the objects of the imported modules, which stay."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
