"""Runners that leave to the executor what is theirs: each skips a check, or sends or passes on too little."""

import contextlib
import json
import os
from typing import Any

from ao_protocol.contracts import OutputContract
from ao_protocol.documents import Description, Invocation, InvocationRefused
from tests.conformance.runners.event_rules import NoEvent, read_event
from tests.conformance.runners.reference import Document, Runner

BOM = b"\xef\xbb\xbf"


class WorksAnywhere(Runner):
    def folder(self) -> str:
        return "/"


class SendsNulls(Runner):
    def invocation(self) -> Document:
        return {**super().invocation(), "agent_name": None}


class SendsAByteOrderMark(Runner):
    def write(self, line: bytes) -> None:
        super().write(BOM + line if b'"mode"' in line else line)


class SendsTwoLines(Runner):
    """It writes JSON for people."""

    def write(self, line: bytes) -> None:
        super().write(line.replace(b"{", b"{\n", 1))


class SendsWhatIsTooLong(Runner):
    def check_length(self, document: Document) -> None:
        pass


class SendsItsFavouriteVersion(Runner):
    def version_among(self, versions: list[str]) -> str:
        super().version_among(versions)
        return "3.0"


class ServesEveryAgent(Runner):
    def check_what_is_served(self, invocation: Invocation, description: Description) -> None:
        pass


class TakesAnyConfiguration(Runner):
    def check_config(self, description: Description) -> None:
        pass


class TakesAnyStrategy(Runner):
    def check_strategy(self, contract: OutputContract, description: Description) -> None:
        with contextlib.suppress(InvocationRefused):
            super().check_strategy(contract, description)


class TakesAnyCommonSetting(Runner):
    def check_common_settings(self, description: Description) -> None:
        pass


class TakesAnyFile(Runner):
    def check_what_is_served(self, invocation: Invocation, description: Description) -> None:
        super().check_what_is_served(invocation.model_copy(update={"attachments": None}), description)


class LooksForNoFile(Runner):
    def check_files(self, invocation: Invocation) -> None:
        pass


class LeavesTheFilesOut(Runner):
    def fields(self) -> Document:
        return {name: value for name, value in super().fields().items() if name not in {"attachments", "requires"}}


class SortsTheFiles(Runner):
    def fields(self) -> Document:
        self.attachments.sort(key=lambda one: str(one["media_type"]))
        return super().fields()


class RequiresNothing(Runner):
    def fields(self) -> Document:
        return {name: value for name, value in super().fields().items() if name != "requires"}


class ResumesEverybody(Runner):
    """It asks for another answer, whoever answered."""

    has_asked = False

    def put(self, line: bytes) -> None:
        if b'"result"' in line and not self.has_asked:
            self.has_asked = True
            again = {**self.invocation(), "mode": "resume", "executor_session_id": "s-1"}
            with self.spawn() as second:
                second.communicate(json.dumps(again).encode() + b"\n")
        super().put(line)


class ChecksBehindTheStart(Runner):
    """It refuses when the executor has had its invocation."""

    def check(self, document: Document) -> None:
        try:
            super().check(document)
        except InvocationRefused:
            with self.spawn() as process:
                process.communicate(json.dumps(document).encode() + b"\n")
            raise


class TakesAnyParameters(Runner):
    def check_parameters(self, invocation: Invocation) -> None:
        pass


class TakesAnyContract(Runner):
    def check_contract(self, invocation: Invocation) -> None:
        with contextlib.suppress(InvocationRefused):
            super().check_contract(invocation)


class LooksForNoFolder(Runner):
    def check_folder(self) -> None:
        pass


class NamesOneProblem(Runner):
    def refuse(self, error: InvocationRefused) -> None:
        error.validation_errors = error.validation_errors[:1]
        super().refuse(error)


class KeepsTheSchemaToItself(Runner):
    def refuse(self, error: InvocationRefused) -> None:
        (error.details or {}).pop("schema", None)
        super().refuse(error)


class WritesNoPrompt(Runner):
    def prompt(self) -> str | None:
        return None


class TrimsThePrompt(Runner):
    def prompt(self) -> str | None:
        text = super().prompt()
        return None if text is None else text.strip()


class WritesThePromptForTheBlock(Runner):
    def prompt(self) -> str | None:
        return str(self.parameters["prompt"])


class PromptsPrograms(Runner):
    def prompt(self) -> str | None:
        return super().prompt() or str(self.parameters["prompt"])


class DemandsNothing(Runner):
    def with_demand(self, prompt: str, contract: OutputContract) -> str:
        return prompt


class WantsWholeEvents(Runner):
    def complete(self, event: Document) -> Document:
        return event


class PassesOnHalfEvents(Runner):
    """It completes events for itself alone."""

    line = b""

    def receive(self, line: bytes) -> None:
        self.line = line
        super().receive(line)

    def say(self, event: Document) -> None:
        if self.is_completed:
            self.put(self.line)
        else:
            super().say(event)


class PromisesWhatItDoesNotKnow(Runner):
    def complete(self, event: Document) -> Document:
        error = event.get("error")
        if isinstance(error, dict):
            event = {**event, "error": {"retryable": True, "side_effects": "none", **error}}
        return super().complete(event)


class ForgetsTheTools(Runner):
    """It does not know any more what the tool was called."""

    def complete(self, event: Document) -> Document:
        whole = super().complete(event)
        if whole is not event and event["event_type"] == "tool_finished":
            return {**whole, "tool_name": "unknown"}
        return whole


class TakesNullForNothing(Runner):
    def complete(self, event: Document) -> Document:
        return super().complete({name: value for name, value in event.items() if value is not None})


class KnowsItsErrorTypes(Runner):
    def receive(self, line: bytes) -> None:
        super().receive(b"null" if b"moon_in_the_wrong_phase" in line else line)


class ListensToStderr(Runner):
    def drain(self, pipe: Any) -> None:
        while chunk := os.read(pipe.fileno(), 65536):
            for line in chunk.splitlines():
                with contextlib.suppress(NoEvent):
                    read_event(line, self.complete)
                    self.inbox.put(("line", line))


class CallsALongEventNoise(Runner):
    def why(self, exit_code: int) -> tuple[str, str, str] | None:
        self.has_long_event = False
        return super().why(exit_code)
