"""Any order of appends, syncs, acknowledgements, restarts and crashes against a plain list."""

from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ao_runner.outbox.outbox import Outbox, OutboxOptions
from ao_runner.run_events import RunKey
from tests.process.runner.outbox.filling import OTHER, RUN, copied, delivered, fresh_folder

OPTIONS = OutboxOptions(cache_bytes=150)
KEYS = st.sampled_from([RUN, OTHER])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), KEYS, st.integers(1, 4)),
        st.tuples(st.just("end"), KEYS, st.just(1)),
        st.tuples(st.just("acknowledge"), KEYS, st.integers(0, 9)),
        st.tuples(st.sampled_from(["sync", "sync", "flush", "reopen", "crash"]), st.just(RUN), st.just(0)),
    ),
    max_size=25,
)


@dataclass
class Plain:
    """One key: all its lines, how many are durable and acknowledged, whether the last is the terminal one."""

    lines: list[bytes] = field(default_factory=list)
    durable: int = 0
    acknowledged: int = 0
    ended: bool = False

    @property
    def is_closed(self) -> bool:
        return self.ended and self.acknowledged == len(self.lines)


class Model:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.crashes = 0
        self.keys: dict[RunKey, Plain] = {RUN: Plain(), OTHER: Plain()}
        self.outbox = Outbox(folder, OPTIONS)

    def take(self, step: str, key: RunKey, number: int) -> None:
        plain = self.keys[key]
        match step:
            case "append" | "end" if not plain.ended:
                lines = [b"%d" % seq * number for seq in range(len(plain.lines) + 1, len(plain.lines) + 1 + number)]
                self.outbox.append(key, len(plain.lines) + 1, lines, ends=step == "end")
                plain.lines += lines
                plain.ended = step == "end"
            case "acknowledge":
                through = min(plain.acknowledged + number, plain.durable)
                self.outbox.acknowledge(key, through)
                plain.acknowledged = through
            case "sync":
                self.outbox.sync()
                self.make_durable()
            case "flush":
                self.outbox.flush_state()
            case "reopen":
                self.outbox.close()
                self.make_durable()
                self.outbox = Outbox(self.folder, OPTIONS)
            case "crash":
                self.crash()

    def make_durable(self) -> None:
        for plain in self.keys.values():
            plain.durable = len(plain.lines)

    def crash(self) -> None:
        """Go on with a copy of what is on the disk now; only acknowledgements and what was not synced may be lost."""
        self.crashes += 1
        left = copied(self.folder, self.folder / f"crash{self.crashes}")
        self.outbox.close()
        self.folder = left
        self.outbox = Outbox(left, OPTIONS)
        states = {state.key: state for state in self.outbox.open_keys()}
        for key, plain in self.keys.items():
            plain.ended = plain.ended and plain.durable == len(plain.lines)
            del plain.lines[plain.durable :]
            if state := states.get(key):
                assert state.acknowledged_seq <= plain.acknowledged
                plain.acknowledged = state.acknowledged_seq
            else:
                assert plain.is_closed or plain.durable == 0

    def check(self) -> None:
        states = {state.key: state for state in self.outbox.open_keys()}
        for key, plain in self.keys.items():
            expected = dict(enumerate(plain.lines[plain.acknowledged : plain.durable], plain.acknowledged + 1))
            assert delivered(self.outbox, key) == expected
            assert delivered(self.outbox, key, max_events=3, max_bytes=5) == expected
            if plain.is_closed:
                assert key not in states
            elif state := states.get(key):
                assert (state.durable_seq, state.acknowledged_seq) == (plain.durable, plain.acknowledged)
                assert state.has_terminal == (plain.ended and plain.durable == len(plain.lines))
        assert self.outbox.damage is None


@given(STEPS)
def test_the_outbox_holds_what_a_list_would_hold(steps: list[tuple[str, RunKey, int]]) -> None:
    with fresh_folder() as folder:
        model = Model(folder)
        for step in steps:
            model.take(*step)
            model.check()
        model.outbox.close()
