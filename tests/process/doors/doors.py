"""All doors by name."""

from collections.abc import Mapping
from typing import Final

from tests.process.doors.command_doors import Python, Resume, Run, Submit, SubmitBatch, SubmitFurther
from tests.process.doors.playing import Door
from tests.process.doors.server_doors import Api, Batch, Dialog, Mcp, ResumePage
from tests.process.doors.worker_doors import Foreign, Leased, Pipe

DOORS: Final[Mapping[str, Door]] = {
    "run": Run(),
    "resume": Resume(),
    "submit": Submit(),
    "submit_session": SubmitFurther(),
    "submit_batch": SubmitBatch(),
    "api": Api(),
    "batch": Batch(),
    "dialog": Dialog(),
    "resume_page": ResumePage(),
    "mcp": Mcp(),
    "agent": Python(),
    "pipe": Pipe(),
    "leased": Leased(),
    "foreign": Foreign(),
}
