"""Ask again for what a stored run asked for."""

from pathlib import Path

from ao_protocol.contracts import SchemaSource
from ao_runner.blueprints.loading import understand_blueprint
from ao_runner.runs.submission import NO_CONTRACT, TERMS, NewRun, RefusalReason, RunRefused
from ao_runner.store.records import Run, Session


def repetition_of(run: Run, session: Session) -> NewRun:
    """Return the request that asks the same as a stored run: in a new session if it began one.

    Its time, `not_before`, is over, and does not return.

    Raises:
        RunRefused: It continued a parked run by answers, which count once.
    """
    if run.input_responses is not None:
        message = f"run {run.run_id} gave a parked run its answers, which count once; resume its session with a prompt"
        raise RunRefused(RefusalReason.CANNOT_RESUME, message)
    record = run.contract or {}
    schema, name, options = record.get("schema"), record.get("schema_name"), record.get("options")
    is_new, source = run.mode == "start", record.get("source")
    is_callers = source in {SchemaSource.INLINE, SchemaSource.NAMED}
    return NewRun(
        parameters=run.parameters,
        blueprint=understand_blueprint(Path(session.agent_name), session.blueprint) if is_new else None,
        session_id=None if is_new else run.session_id,
        project_dir=session.project_dir if is_new else None,
        executor_config=session.executor_config if is_new else {},
        output_schema=schema if is_callers and name is None and isinstance(schema, dict) else None,
        output_schema_name=str(name) if is_callers and name is not None else None,
        output_schema_options=options if isinstance(options, dict) else {},
        no_schema=source == NO_CONTRACT["source"],
        keep_rejected=record.get("keep_rejected") is not False,
        batch_id=run.batch_id,
        succeeds=run.run_id,
        **{name: getattr(run, name) for name in TERMS if name != "not_before"},
    )
