"""The doors of this host: commands, and `Agent` of Python."""

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from ao_runner.agents import Agent, Attachment
from tests.process.doors.playing import (
    ASKS_A_MODEL,
    NO_AGENT_OF_A_COMMAND,
    NO_ASKING_SESSION,
    NO_BYTES,
    NO_QUEUE,
    NO_RESUME,
    NOT_OF_PERFORMED,
    OF_A_SESSION,
    OWN_IDS,
    Ask,
    Door,
)
from tests.process.doors.spelling import MEMBERS, Files, arguments_of, placed
from tests.process.doors.table import COMMON
from tests.process.runner.cli.calling import Ao


class Command(Door):
    """A command of `ao` that stores the run, and may perform it."""

    command: ClassVar[tuple[str, ...]]
    session_option: ClassVar[tuple[str, ...]] = ()

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Ask]:
        work, files = folder / "work", Files(folder)
        ao = Ao(work)

        def ask(asked: Mapping[str, Any]) -> str | None:
            argv, stdin = arguments_of(asked, folder, files)
            session = [*self.session_option, asked["session"]] if "session" in asked else []
            called = ao(*self.command, *session, *argv, stdin=stdin, AO_HOME=str(folder / "home"))
            return None if called.exit_code == 0 else called.stderr + called.stdout

        yield ask


class Run(Command):
    command = ("run",)
    lacks = {**NO_QUEUE, **NO_ASKING_SESSION, **OWN_IDS, **NO_RESUME}
    unstored = NOT_OF_PERFORMED
    performs = True
    not_played = {**NO_AGENT_OF_A_COMMAND, **ASKS_A_MODEL, **NO_BYTES}


class Resume(Command):
    command = ("resume",)
    lacks = {**NO_QUEUE, **NO_ASKING_SESSION, **OWN_IDS, **OF_A_SESSION}
    not_played = NO_BYTES
    unstored = NOT_OF_PERFORMED
    performs = True


class Submit(Command):
    command = ("submit",)
    lacks = {**NO_ASKING_SESSION, **OWN_IDS, **NO_RESUME}
    not_played = {**NO_AGENT_OF_A_COMMAND, **NO_BYTES}


class SubmitFurther(Command):
    command = ("submit",)
    session_option = ("--session",)
    not_played = NO_BYTES
    lacks = {**NO_ASKING_SESSION, **OWN_IDS, **OF_A_SESSION}


class SubmitBatch(Command):
    """A line of the file of `ao submit --batch`."""

    lacks = {
        **NO_ASKING_SESSION,
        **OWN_IDS,
        "model_script": "an option of the command line, for all lines",
    }
    not_played = NO_AGENT_OF_A_COMMAND
    names = {**MEMBERS, "agent": "nobody.json"}

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Ask]:
        ao = Ao(folder / "work")

        def ask(asked: Mapping[str, Any]) -> str | None:
            line = {SPELLED.get(name, name): placed(value, folder) for name, value in asked.items()}
            if "agent" in asked:
                line["blueprint"] = f"{line.pop('agent')}.json"
            home = str(folder / "home")
            called = ao("submit", "--batch", "-", stdin=f"{json.dumps(line)}\n", AO_HOME=home)
            return None if called.exit_code == 0 else called.stderr + called.stdout

        yield ask


SPELLED: Final = {"session": "session_id", "requeue": "requeue_at_reset"}


class Python(Door):
    """`Agent`, which performs the run."""

    lacks = {
        **NO_QUEUE,
        **NO_ASKING_SESSION,
        **OWN_IDS,
        "session": "an `Agent` begins a session with each run",
        "output_schema": "the answer is a class, whose schema it is",
        "output_schema_name": "the answer is a class, whose schema it is",
    }
    unstored = NOT_OF_PERFORMED
    performs = True
    names = {"agent": "nobody.json", "executor_config": "config", "attachments": "Attachment"}
    not_played = {**ASKS_A_MODEL, "no agent": "an `Agent` has a blueprint"}

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Ask]:
        files = Files(folder)

        def ask(asked: Mapping[str, Any]) -> str | None:
            given = {
                name: placed(value, folder) for name, value in asked.items() if name not in {"agent", "parameters"}
            }
            if "executor_config" in given:
                config = given.pop("executor_config")
                given |= config if config == COMMON else {"config": config}
            if "model_script" in given:
                given["model_script"] = files.write("model_script", given["model_script"])
            attachments = given.pop("attachments", [])
            fields: dict[str, Any] = {"project_dir": folder / "work", "home": folder / "home", **given}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of settings that the executor does not know
                try:
                    attached = [Attachment(**one) for one in attachments]
                    agent: Agent = Agent(folder / "work" / f"{asked['agent']}.json", **fields)
                    agent.run(parameters=asked["parameters"], attachments=attached)
                except Exception as error:  # noqa: BLE001  # any refusal
                    return f"{type(error).__name__}: {error}"
            return None

        yield ask
