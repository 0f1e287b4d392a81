"""`ao inputs` and `ao answer`: the requests of runs to a person, and the answers to them."""

import getpass
import json
import os
from dataclasses import asdict
from typing import Any

import click

from ao_protocol.input_answers import options_of
from ao_protocol.wire import JsonObject
from ao_protocol.written import NotInteroperable, parse_json
from ao_runner.cli.options import complete_asking_run, complete_request, examples, json_option, store_options
from ao_runner.cli.printing import echo, leave_if_damaged, print_document, print_table, shorten, show_success
from ao_runner.cli.runs import time_since
from ao_runner.odd_characters import visible
from ao_runner.runs.answering import find_request, give_answer, input_of
from ao_runner.runs.lost_runs import opened_and_swept
from ao_runner.store.brief_fields import brief
from ao_runner.store.input_table import StoredRequest
from ao_runner.store.opening import StorePlace
from ao_runner.store.store import Store
from ao_runner.store.store_errors import SessionUnknown


@click.command(
    "inputs",
    epilog=examples(
        "ao inputs",
        "ao inputs run_4c5ab0",
        "ao inputs --json | jq -r '.[] | [.run_id, .request_id] | @tsv'",
    ),
)
@click.argument("run", required=False, shell_complete=complete_asking_run)
@json_option("Print the requests as a JSON list.")
@store_options
def inputs_command(run: str | None, as_json: bool, place: StorePlace) -> None:
    """List the requests of runs that wait for a person, or show all requests of RUN with what they ask."""
    with opened_and_swept(place) as store:
        now = store.now()
        requests = store.inputs.waiting() if run is None else store.inputs.of_run(run_of(store, run))
    if as_json:
        documents = [{**asdict(one), "is_waiting": one.is_waiting} for one in requests]
        # Those of one run are whole.
        print_document([{**one, "fields": brief(one["fields"])} for one in documents] if run is None else documents)
    elif run is not None:
        for request in requests:
            _show(request)
        if not requests:
            echo("the run has made no request", err=True)
    else:
        rows = [
            [one.run_id, one.request_id, shorten(one.agent_name, 24), time_since(one.asked_at, now), _title(one)]
            for one in requests
        ]
        print_table(["RUN", "REQUEST", "AGENT", "SINCE", "TITLE"], rows, expendable=("TITLE", "AGENT", "SINCE"))
        echo("answer one: ao answer RUN REQUEST --allow" if requests else "no run waits for a person", err=True)
    leave_if_damaged(store.damage)


def run_of(store: Store, wanted: str) -> str:
    """Return the id of a run: that of the run, the beginning of it, `last`, or the last run of a session.

    Raises:
        SessionUnknown: None fits, or several do.
    """
    session_id, run_id = store.sessions.resolve(wanted)
    last = store.runs.last(session_id, run_id)
    if last is None:
        raise SessionUnknown(wanted)
    return last.run_id


def _title(request: StoredRequest) -> str:
    return shorten(f"{request.fields.get('title', '')}{' (parked)' if request.is_parked else ''}")


def _show(request: StoredRequest) -> None:
    state = "waits for an answer" if request.is_waiting else f"{request.outcome or 'answered'}"
    by = f" by {request.answered_by}" if request.answered_by else ""
    echo(f"{request.request_id}: {state}{by}", bold=True)
    for line in lines_of(request.fields):
        echo(f"  {line}")


def lines_of(fields: JsonObject) -> list[str]:
    """Return what a request asks, as lines for a person: the title, the whole input of the tool, the options.

    Characters that hide or reorder text are shown by their number, so that a person allows what is really asked.
    """
    lines = [_in_one_line(fields.get("title", ""))]
    lines += [f"  {line}" for line in input_of(fields.get("tool_input"))]
    lines += [
        f"  {number}  {_in_one_line(option['label'])}  [{_in_one_line(identifier)}]"
        for number, (identifier, option) in enumerate(options_of(fields).items(), 1)
    ]
    if fields.get("schema") is not None:
        lines.append(f"  value: {json.dumps(fields['schema'], ensure_ascii=False)}")
    return [visible(line) for line in lines]


def _in_one_line(text: Any) -> str:  # noqa: ANN401  # any JSON
    return " ".join(str(text).split())


def person() -> str:
    """Return the name of the user of this process, for other people."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        return f"uid {os.getuid()}"


@click.command(
    "answer",
    epilog=examples(
        "ao answer run_4c5ab0 --allow",
        "ao answer run_4c5ab0 call_7 --deny",
        "ao answer run_4c5ab0 --option always",
        "ao answer run_4c5ab0 --value '\"main\"'",
    )
    + "\n\n\b\nExit codes: 0 the answer counts, 2 it does not fit, or another one was first.",
)
@click.argument("run", shell_complete=complete_asking_run)
@click.argument("request", required=False, shell_complete=complete_request)
@click.option("--allow", "effect", flag_value="allow", help="Choose the option that allows, for this time.")
@click.option("--deny", "effect", flag_value="deny", help="Choose the option that denies.")
@click.option("--option", metavar="ID", help="Choose this option; `ao inputs RUN` lists them.")
@click.option("--value", metavar="JSON", help="The value that the request asks for.")
@json_option("Print the answer as JSON.")
@store_options
def answer_command(**given: Any) -> None:  # noqa: ANN401  # what click gives
    """Answer a REQUEST of RUN: the only one that waits, if it is not named. The first answer counts.

    A parked run continues as another run, which is added to the queue.
    """
    effect, option, value = given["effect"], given["option"], given["value"]
    if effect is None and option is None and value is None:
        raise click.UsageError("Say what to answer: --allow, --deny, --option ID or --value JSON.")
    if effect is not None and option is not None:
        raise click.UsageError("Use either --allow, --deny or --option.")
    with opened_and_swept(given["place"]) as store:
        found = find_request(store, run_of(store, given["run"]), given["request"])
        answer: JsonObject = {}
        if effect is not None:
            answer["option_id"] = _option_with(found, effect)
        if option is not None:
            answer["option_id"] = option
        if value is not None:
            answer["value"] = _value(value)
        with store.transaction():
            answered = give_answer(store, found, answer, person())
        store.notify()
    if given["as_json"]:
        document = {"run_id": found.run_id, "request_id": found.request_id, "outcome": answered.outcome}
        print_document({**document, "next_run_id": answered.next_run_id})
        return
    show_success(f"{answered.outcome}: {shorten(str(found.fields.get('title', '')))}")
    if answered.next_run_id is not None:
        echo(f"  the parked run continues as {answered.next_run_id}, which is queued for `ao worker`", err=True)


def _option_with(request: StoredRequest, effect: str) -> str:
    """Return the option with an effect; that for one time rather than one for the session.

    Raises:
        click.UsageError: The request has none.
    """
    fitting = [option for option in options_of(request.fields).values() if option["effect"] == effect]
    once = [option for option in fitting if option.get("scope") != "session"]
    if not fitting:
        known = ", ".join(options_of(request.fields)) or "none"
        raise click.UsageError(f"The request has no option that {effect}s; its options: {known}. Use --option ID.")
    return str((once or fitting)[0]["id"])


def _value(text: str) -> Any:  # noqa: ANN401  # any JSON
    try:
        return parse_json(text)
    except NotInteroperable as error:
        raise click.BadParameter(f"{text[:80]!r} is not JSON: {error}", param_hint="--value") from error
