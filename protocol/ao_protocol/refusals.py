"""Refusals of an invocation before any work, by the executor's description, the parameters and the contract.

A runner checks before it starts a process, and a standard executor checks again. Both refuse with the same messages
(SPEC 4, 7, 8, 9, AOX-238, AOX-239). The caller of this module checks the project directory.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from pydantic import JsonValue

from ao_protocol.attachments import Attachment, matches, problems_of_files
from ao_protocol.common_settings import undeclared_settings
from ao_protocol.contracts import (
    AgentResponseFormat,
    ContractOverridden,
    Demand,
    InvalidOptions,
    InvalidSchema,
    OutputContract,
    Problem,
    Strategy,
    StrategyNotOffered,
    check_schema,
    resolve_contract,
    validate,
    with_strategy,
)
from ao_protocol.contracts.checks import MAX_PROBLEMS
from ao_protocol.contracts.contract import USUAL
from ao_protocol.documents import (
    ATTACHMENTS_FEATURE,
    INPUT_FEATURE,
    AttachmentsCapability,
    Description,
    Invocation,
    InvocationRefused,
    OutputSchemaCapability,
)
from ao_protocol.errors import ErrorType
from ao_protocol.inputs import ParametersInvalid, check_parameters
from ao_protocol.prompt_only import takes_an_empty_config
from ao_protocol.wire import JsonObject


class ConfigSchemaNotAcceptable(ValueError):
    """The executor's own `config_schema` is not an acceptable JSON Schema. Its author has to correct it."""


def refuse_what_is_not_served(invocation: Invocation, description: Description) -> None:
    """Check that the executor serves the agent's type, the mode, the required features and the attachments.

    Raises:
        InvocationRefused: `unsupported_capability`: the description does not declare one of them.
    """
    blueprint, name = invocation.agent_blueprint, description.executor.name
    if blueprint is not None and blueprint.type not in description.agent_types:
        served = ", ".join(description.agent_types)
        raise InvocationRefused(
            ErrorType.UNSUPPORTED_CAPABILITY,
            f"the agent is of type {blueprint.type}; {name} serves agents of type {served}",
            {"missing": [f"agent_type:{blueprint.type}"]},
        )
    if invocation.mode == "resume" and not description.capabilities.resume:
        message = f"{name} cannot resume a session; start a new one"
        raise InvocationRefused(ErrorType.UNSUPPORTED_CAPABILITY, message, {"missing": ["resume"]})
    if INPUT_FEATURE in invocation.requires and not description.capabilities.input_parking:
        message = f"the invocation requires {INPUT_FEATURE}, and {name} cannot continue a parked run; start a new one"
        raise InvocationRefused(ErrorType.UNSUPPORTED_CAPABILITY, message, {"missing": [INPUT_FEATURE]})
    refuse_attachments(invocation.attachments or [], description)


def refuse_attachments(attachments: Sequence[Attachment], description: Description) -> None:
    """Check that the executor declares the media type of each attachment.

    Raises:
        InvocationRefused: `unsupported_capability`: the description does not declare one of them.
    """
    capability = description.capabilities.attachments
    declared = capability.media_types if isinstance(capability, AttachmentsCapability) else []
    types = {f"$.attachments[{index}].media_type": one.media_type for index, one in enumerate(attachments)}
    refused = {place: media_type for place, media_type in types.items() if not matches(media_type, declared)}
    if refused:
        missing = sorted(set(refused.values()))
        taken = f"of the type {' or '.join(missing)}; it takes {', '.join(declared) or 'none'}"
        raise InvocationRefused(
            ErrorType.UNSUPPORTED_CAPABILITY,
            f"{', '.join(refused)}: {description.executor.name} takes no attachments {taken}",
            {"missing": [f"{ATTACHMENTS_FEATURE}:{media_type}" for media_type in missing]},
        )


def refuse_unreadable_attachments(attachments: Sequence[Attachment]) -> None:
    """Check that the file of each attachment can be read and is small enough.

    Raises:
        InvocationRefused: `invalid_invocation`, with the problems.
    """
    if problems := list(problems_of_files(attachments)):
        details: JsonObject = {"problems": list[JsonValue](problems)}
        raise InvocationRefused(ErrorType.INVALID_INVOCATION, f"invalid invocation: {'; '.join(problems)}", details)


def refuse_undeclared_settings(config: JsonObject, description: Description) -> None:
    """Check that the executor declares each common setting of an `executor_config`; only a runner does (AOX-238).

    Raises:
        InvocationRefused: `invalid_executor_config`, with the violations.
    """
    if problems := undeclared_settings(config, description):
        raise _config_refused(problems, description)


def refuse_config(config: JsonObject, description: Description, *, is_vetted: bool = False) -> None:
    """Check an `executor_config` against the executor's `config_schema`.

    Args:
        config: The `executor_config` of an invocation.
        description: The executor's description.
        is_vetted: Whether the schema is known to be valid, so that only the config is checked.

    Raises:
        InvocationRefused: `invalid_executor_config`, with the violations.
        ConfigSchemaNotAcceptable: The schema itself is not acceptable.
    """
    schema = description.config_schema
    if not config and takes_an_empty_config(schema):
        return
    from ao_protocol.contracts.validation import Validator

    try:
        problems = (
            list(islice(Validator(schema).problems(config), MAX_PROBLEMS)) if is_vetted else validate(config, schema)
        )
    except InvalidSchema as error:
        raise ConfigSchemaNotAcceptable(
            f"the config_schema of {description.executor.name} is not acceptable: {error}; "
            "its author has to write it in JSON Schema Draft-7"
        ) from error
    if problems:
        raise _config_refused(problems, description)


def _config_refused(problems: Sequence[Problem], description: Description) -> InvocationRefused:
    violations: list[JsonValue] = [{"pointer": problem.path, "message": problem.message} for problem in problems]
    return InvocationRefused(
        ErrorType.INVALID_EXECUTOR_CONFIG,
        f"executor_config does not fit: {'; '.join(map(str, problems))}",
        {"violations": violations, "schema": description.config_schema},
    )


def refuse_parameters(invocation: Invocation) -> None:
    """Check the parameters against the schema that applies, and that schema itself.

    Raises:
        InvocationRefused: `parameters_validation_failed` for the parameters, or `invalid_invocation` for the schema.
    """
    blueprint = invocation.agent_blueprint
    try:
        if blueprint is not None and blueprint.parameters_schema is not None:
            check_schema(blueprint.parameters_schema)
        check_parameters(invocation)
    except InvalidSchema as error:
        problem = f"$.agent_blueprint.parameters_schema: {error}"
        raise InvocationRefused(ErrorType.INVALID_INVOCATION, problem, {"problems": [problem]}) from error
    except ParametersInvalid as error:
        texts = [str(problem) for problem in error.problems]
        details: JsonObject = {"validation_errors": list[JsonValue](texts), "schema": error.schema}
        raise InvocationRefused(
            ErrorType.PARAMETERS_VALIDATION_FAILED, str(error), details, validation_errors=texts
        ) from error


def contract_or_refusal(demand: Demand, environ: Mapping[str, str]) -> OutputContract | None:
    """Return the contract of the run; None without a demand. `environ` has the defaults of options, if any.

    Raises:
        InvocationRefused: `invalid_invocation` for invalid options or an attempt to replace the blueprint's contract,
            `invalid_output_schema` for an unacceptable schema.
    """
    try:
        return resolve_contract(demand, environ)
    except ContractOverridden as error:
        details: JsonObject = {"problems": [str(error.problem)]}
        raise InvocationRefused(ErrorType.INVALID_INVOCATION, str(error), details) from error
    except InvalidOptions as error:
        details = {"problems": [str(problem) for problem in error.problems]}
        message = f"the output options are not acceptable: {error}"
        raise InvocationRefused(ErrorType.INVALID_INVOCATION, message, details) from error
    except InvalidSchema as error:
        message = f"the output schema is not acceptable: {error}"
        raise InvocationRefused(ErrorType.INVALID_OUTPUT_SCHEMA, message) from error


def with_offered_strategy(
    contract: OutputContract, offered: Collection[str], *, is_resume: bool, usual: Strategy = USUAL, whose: str = ""
) -> OutputContract:
    """Return the contract with the strategy of the run.

    Args:
        contract: The contract of the run.
        offered: The strategies of the program that keeps the contract.
        is_resume: Whether the run resumes a session.
        usual: The strategy of a run that names none.
        whose: A prefix of the refusal's message that names the program.

    Raises:
        InvocationRefused: `unsupported_capability`: the strategy is not offered.
    """
    try:
        return with_strategy(contract, offered, is_resume=is_resume, usual=usual)
    except StrategyNotOffered as error:
        missing: JsonObject = {"missing": [f"output_schema.strategies:{error.wanted}"]}
        raise InvocationRefused(ErrorType.UNSUPPORTED_CAPABILITY, f"{whose}{error}", missing) from error


def refuse_format(contract: OutputContract, capability: OutputSchemaCapability) -> None:
    """Check that an executor that keeps contracts knows the format of this one.

    Raises:
        InvocationRefused: `unsupported_capability`: the executor does not declare the format.
    """
    if isinstance(contract.format, AgentResponseFormat) and "agent_response" not in capability.formats:
        raise InvocationRefused(
            ErrorType.UNSUPPORTED_CAPABILITY,
            "the agent's output_format is agent_response, which this executor does not support; run it with `ao run`, "
            "which keeps the contract itself",
            {"missing": ["output_schema.formats:agent_response"]},
        )
