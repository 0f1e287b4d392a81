"""`ao new executor`: create the project of an executor, in one of several languages."""

import json
from pathlib import Path

import click

from ao_executors.scaffold.project import LANGUAGES, Project, ProjectError, make_project

EXAMPLES = """\b
Examples:
  ao new executor --lang bash my-agent
  ao new executor --lang go ~/src/reviewer --name pr-reviewer"""


@click.group("new")
def command() -> None:
    """Create a new project."""


@command.command("executor", short_help="Create the project of an executor.", epilog=EXAMPLES)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--lang", "language", type=click.Choice(list(LANGUAGES)), required=True, help="Language of the executor.")
@click.option("--name", metavar="NAME", help="Name of the executor.  [default: the last part of PATH]")
@click.option("--json", "as_json", is_flag=True, help="Print the created project as a JSON object.")
def executor(path: Path, language: str, name: str | None, as_json: bool) -> None:
    """Create a project in the new folder PATH, with an executor that answers with its prompt.

    It passes the core level of the conformance suite. Existing files are never overwritten.
    """
    try:
        project = make_project(language, path, name)
    except (ProjectError, OSError) as error:
        raise click.UsageError(str(error)) from error
    click.echo(json.dumps(_document(project)) if as_json else _report(project))


def _document(project: Project) -> dict[str, object]:
    return {
        "name": project.name,
        "language": project.language,
        "path": str(project.folder),
        "executable": project.executable,
        "files": list(project.files),
        "next": list(project.next_steps),
    }


def _report(project: Project) -> str:
    made = "\n".join(f"  {name}" for name in project.files)
    steps = "\n".join(f"  {step}" for step in (f"cd {project.folder}", *project.next_steps))
    created = f"Created {project.executable} in {project.folder}:\n\n{made}\n\nNow run:\n\n{steps}"
    return f"{created}\n\nIts CI file runs the same commands; README.md says which variable it needs."
