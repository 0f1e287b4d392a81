"""Importing a package without other ones that it imports and that a run does not use."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


def import_without(package: str, unused: str) -> None:
    """Import a package with placeholders for what it imports of `unused`.

    A placeholder has every name that is asked of it: an empty class, which refuses to be called. Afterwards `unused`
    can be imported as ever. A package that does not come to terms with placeholders is not imported at all, and an
    ordinary import brings it whole. Where `unused` is loaded already nothing would be won, and nothing is done. Other
    threads may import meanwhile, but for `unused`.
    """
    if unused in sys.modules:
        return
    placeholders = _Placeholders(unused)
    sys.meta_path = [placeholders, *sys.meta_path]  # another list: a thread may be importing by the one that was
    try:
        import_module(package)
    except Exception:  # noqa: BLE001  # whatever another version does with them; an ordinary import tells of real faults
        _forget(package)
    finally:
        sys.meta_path = [finder for finder in sys.meta_path if finder is not placeholders]
        _forget(unused)


@contextmanager
def deferred(package: str) -> Iterator[None]:
    """Let `import package` bring a stand-in while the block runs, which imports the package when a name is asked of it.

    So the package's names are right for everybody, other threads included, and only who uses one pays for the import.
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
    for name in list(sys.modules):  # a copy, made at once: another thread may be importing
        if name == package or name.startswith(f"{package}."):
            del sys.modules[name]


class _Placeholders(MetaPathFinder, Loader):
    """Finds a package and all below it, and loads nothing."""

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
        """Take the options that the real class takes."""

    def __init__(self, *values: object, **named: object) -> None:
        raise ImportError(f"{type(self).__module__}.{type(self).__name__} was left out of the import: nobody used it")
