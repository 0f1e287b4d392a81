"""Import a package without those of its imports that a run does not use."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def import_without(package: str, unused: str) -> None:
    """Import a package with placeholders for its imports of the package `unused`.

    A placeholder module has every requested name: an empty class, whose call raises ImportError. Afterwards `unused`
    can be imported normally. If the import fails with placeholders, the package is removed again, and an ordinary
    import loads it completely. If `unused` is already loaded, nothing is done. Other threads may import other packages
    meanwhile.
    """
    if unused in sys.modules:
        return
    placeholders = _Placeholders(unused)
    sys.meta_path = [placeholders, *sys.meta_path]  # a new list: another thread may be iterating over the old one
    try:
        import_module(package)
    except Exception:  # noqa: BLE001  # for example another version; an ordinary import reports real errors
        _forget(package)
    finally:
        sys.meta_path = [finder for finder in sys.meta_path if finder is not placeholders]
        _forget(unused)


@contextmanager
def deferred(package: str) -> Iterator[None]:
    """Replace a package by a stand-in while the block runs. The stand-in imports the package at the first access.

    The package's names are correct in all threads, and only the use of a name costs the import.
    """
    stand_in = _StandIn(package)
    sys.modules.setdefault(package, stand_in)
    try:
        yield
    finally:
        stand_in.step_aside()


class _StandIn(ModuleType):
    def step_aside(self) -> None:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]

    def __getattr__(self, name: str) -> object:
        self.step_aside()
        return getattr(import_module(self.__name__), name)


def _forget(package: str) -> None:
    for name in list(sys.modules):  # an atomic copy: another thread may be importing
        if name == package or name.startswith(f"{package}."):
            del sys.modules[name]


class _Placeholders(MetaPathFinder, Loader):
    """The finder and loader of placeholders for a package and its submodules."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        is_below = f"{fullname}.".startswith(f"{self._package}.")
        return ModuleSpec(fullname, self, is_package=True) if is_below else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _EmptyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _EmptyModule(ModuleType):
    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (_LeftOut,), {"__module__": self.__name__})


class _LeftOut:
    def __init_subclass__(cls, **options: object) -> None:
        """Accept the options of the real class."""

    def __init__(self, *values: object, **named: object) -> None:
        raise ImportError(f"{type(self).__module__}.{type(self).__name__} was left out of the import: nobody used it")
