"""Whether a run may be added to a session, and which contract its answer has to meet."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from ao_protocol.contracts import InvalidSchema, OptionDefaults, defaults_from, demands_of_blueprint, takes_defaults
from ao_protocol.contracts.contract import USUAL_DEFAULTS, ContractOverridden, resolve_contract
from ao_protocol.documents import Blueprint
from ao_protocol.framing import MAX_INVOCATION_BYTES
from ao_protocol.wire import JsonObject, problems_of
from ao_runner.blueprints.placeholders import with_stand_ins
from ao_runner.errors import RunnerError
from ao_runner.runs.acceptance import CallerDemand, demand_record, demands_together
from ao_runner.runs.run_request import not_keeping_rejected_answers
from ao_runner.store.records import Run, Session
from ao_runner.store.store_errors import RowDamaged


@dataclass(frozen=True, slots=True)
class Demand:
    """The output contract that a run demands, as it is stored and sent, and the defaults of its options.

    `attempts` is the maximum number of answers; None without a contract, or if the agent is not asked again.
    """

    record: JsonObject | None
    defaults: OptionDefaults = USUAL_DEFAULTS
    attempts: int | None = None


@dataclass(eq=False)
class ContractRefused(RunnerError):
    """The demanded output contract is not possible."""

    reasons: Sequence[str]

    def __str__(self) -> str:
        return "; ".join(self.reasons)


class OptionsWithoutSchema(ContractRefused):
    """Options of an output schema, and no schema."""


def demand_for(caller: CallerDemand, blueprint: Blueprint, *, keeps_rejected: bool = True) -> Demand:
    """Return the combined demand of a caller, the blueprint and the environment.

    Problems of the blueprint's own schema are reported by the run.

    Raises:
        ContractRefused: The demands contradict the blueprint's.
        OptionsWithoutSchema: There are options, and neither caller nor blueprint has a schema.
        InvalidOptions: An option is unknown or not valid.
    """
    designers = demands_of_blueprint(blueprint)
    if caller.options and caller.schema is None and designers.authoritative is None and designers.default is None:
        raise OptionsWithoutSchema(["output_schema_options need an output schema, and there is none"])
    try:
        demands = demands_together(blueprint, caller)
        defaults = defaults_from(os.environ) if takes_defaults(demands) else USUAL_DEFAULTS
        contract = resolve_contract(demands, defaults)
    except ContractOverridden as error:
        raise ContractRefused([str(error)]) from error
    except InvalidSchema:
        contract = None
    record = demand_record(blueprint, caller, defaults)
    if not keeps_rejected:
        record = not_keeping_rejected_answers(record)
    is_asked_again = contract is not None and blueprint.type == "autonomous"
    return Demand(record, defaults, contract.max_retries + 1 if contract is not None and is_asked_again else None)


class TooLarge(RunnerError):
    """No invocation can hold a run."""


def check_size(session: Session, run: Run, metadata: JsonObject) -> None:
    """Refuse a run before it is queued if its invocation would be too large (AOX-237).

    Raises:
        TooLarge: It would. The parameters of a model are in it twice, the second time as its prompt.
    """
    parts: list[object] = [session.blueprint, session.executor_config, run.parameters, run.contract, metadata]
    parts += [] if session.blueprint.get("type") == "procedural" else [run.parameters]
    size = len(json.dumps(parts, ensure_ascii=False).encode())
    if size > MAX_INVOCATION_BYTES:
        most = f"{MAX_INVOCATION_BYTES} are the most; put large texts into files"
        raise TooLarge(f"the invocation of the run would have {size} bytes, and {most}")


class CannotResume(RunnerError):
    """The session is known, but it cannot be resumed."""


def blueprint_of(session: Session) -> Blueprint:
    """Return the blueprint of a stored session, with stand-ins for its placeholders.

    Raises:
        RowDamaged: The stored blueprint is not valid.
    """
    try:
        return Blueprint.model_validate(with_stand_ins(session.blueprint))
    except ValidationError as error:
        problems = "; ".join(str(problem) for problem in problems_of(error, session.blueprint))
        raise RowDamaged("session", session.session_id, f"column blueprint holds no blueprint: {problems}") from error


def check_resumable(session: Session, *, is_open: bool, has_script: bool) -> None:
    """Refuse a session that cannot be resumed.

    Args:
        session: The session.
        is_open: Whether one of its runs has not ended yet.
        has_script: Whether a model script shall answer in place of a model.

    Raises:
        CannotResume: The executor announced no session id, or the session needs, or does not allow, a model script.
    """
    if session.executor_session_id is None and not is_open:
        raise CannotResume(
            f"session {session.session_id} cannot be resumed: its executor, {session.executor_name}, never announced a "
            "session id. Start a new session with `ao run` or `ao submit`"
        )
    if session.is_simulated and not has_script:
        raise CannotResume(
            f"session {session.session_id} was created with a model script, so a real model does not know it. "
            "Add --model-script FILE, or start a new one with `ao run`"
        )
    if has_script and not session.is_simulated:
        raise CannotResume(
            f"session {session.session_id} was created with a real model, so a script cannot continue it. "
            "Omit --model-script"
        )
