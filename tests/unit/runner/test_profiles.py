"""How the host of a runner says that an executor is to be run."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ao_executors.core.described import common_settings
from ao_protocol.common_settings import COMMON_SETTINGS
from ao_protocol.documents import Description
from ao_protocol.wire import JsonObject
from ao_runner.blueprints.loading import UnreadableFile, load_object
from ao_runner.blueprints.placeholders import Scopes, placeholder_problems, resolve_placeholders
from ao_runner.errors import RunnerError
from ao_runner.profiles import (
    InvalidProfile,
    Profile,
    ProfileFolderUnreadable,
    ProfileLimits,
    ProfileNotFound,
    Sandbox,
    list_profiles,
    load_profile,
    missing_variables,
    problems_with,
    profile_environment,
)

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "profiles"


def written(home: Path, name: str, text: str, folder: str = "profiles") -> Path:
    path = home / folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_example_is_read_with_its_paths_and_sizes(tmp_path: Path) -> None:
    profile = load_profile(str(EXAMPLES / "reviews.yaml"), tmp_path, {})

    assert (profile.name, profile.executor, profile.tags) == ("reviews", "claude-code", ["reviews"])
    assert profile.limits == ProfileLimits(
        timeout_seconds=1800, idle_seconds=120, max_turns=50, max_cost_usd=5, memory_bytes=2 * 1024**3, processes=200
    )
    assert profile.warm is not None
    assert profile.warm.blueprint == str(EXAMPLES / "reviewer.yaml")


def test_the_folder_of_a_user_that_is_not_there_leads_nowhere(tmp_path: Path) -> None:
    text = "executor: ~nobody-of-that-name/x\nwarm: {size: 1, blueprint: ~nobody-of-that-name/a.yaml}\n"
    profile = load_profile(str(written(tmp_path, "lost.yaml", text)), tmp_path, {})

    assert "~nobody-of-that-name" in profile.executor
    with pytest.raises(UnreadableFile, match="~nobody-of-that-name"):
        load_profile("~nobody-of-that-name/x.yaml", tmp_path, {})
    with pytest.raises(ProfileFolderUnreadable, match="~nobody-of-that-name"):
        list_profiles(tmp_path, {"AO_PROFILES": "~nobody-of-that-name"})


def test_the_blueprint_of_the_example_is_filled_in_with_what_its_profile_lets_it_see(tmp_path: Path) -> None:
    profile = load_profile(str(EXAMPLES / "reviews.yaml"), tmp_path, {})
    blueprint = load_object(EXAMPLES / "reviewer.yaml")
    scopes = Scopes(
        runner={"orchestrator_mcp_url": "http://127.0.0.1:9/mcp"},
        params={"prompt": "MR 7", "focus": "tests"},
        env=profile_environment(profile, {"TRACKER_TOKEN": "s3cr3t-value", "HOME": "/root"}),
        runtime={"session_id": "ses_1"},
        secrets=profile.secrets,
    )

    resolved = resolve_placeholders(blueprint, scopes)

    assert placeholder_problems(blueprint) == []
    assert resolved["system_prompt"] == (
        "You review merge requests of project 42 and write about tests.\n"
        "Prices such as ${amount} are templates: leave them as they are.\n"
    )
    assert resolved["mcp_servers"] == {
        "orchestrator": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
        "tracker": {"command": "mcp-tracker", "args": ["--session", "ses_1"], "env": {"TOKEN": "s3cr3t-value"}},
    }


def test_a_profile_adds_variables_that_are_there_and_those_that_it_sets() -> None:
    document: JsonObject = {
        "name": "p",
        "executor": "echo",
        "environment": {"pass": ["REGION", "NOT_SET"], "set": {"LEVEL": "1"}},
        "secrets": ["TOKEN"],
    }
    profile = Profile.model_validate(document)
    environ = {"REGION": "eu", "TOKEN": "t", "HOME": "/root"}

    assert profile_environment(profile, environ) == {"REGION": "eu", "TOKEN": "t", "LEVEL": "1"}
    assert missing_variables(profile, environ) == ["NOT_SET"]


SIZES = {"1": 1, "'1 B'": 1, "2kB": 2000, "512MiB": 536870912, "2GB": 2000000000, "1.5 GiB": 1610612736, "1TiB": 2**40}


@pytest.mark.parametrize("text", SIZES)
def test_sizes_are_bytes_however_they_are_written(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, "p.yaml", f"executor: echo\nlimits: {{memory_bytes: {text}}}\n")

    assert load_profile(str(path), tmp_path, {}).limits.memory_bytes == SIZES[text]


@given(st.text(alphabet="059. kKMGiB", max_size=6))
def test_a_size_that_is_none_is_refused_and_never_guessed(text: str) -> None:
    try:
        size = Profile.model_validate({"name": "p", "executor": "x", "limits": {"file_bytes": text}}).limits.file_bytes
    except ValidationError:
        return
    assert size is not None
    assert text[-1] == "B"


WRONG = {
    "a typo in a limit": ("limits: {timout_seconds: 3}", "$.limits.timout_seconds: unknown field; did you mean 'time"),
    "a limit in the wrong place": ("max_turns: 3", "$.max_turns: unknown field; did you mean 'limits.max_turns'?"),
    "a field unlike any": ("zzz: 3", "$.zzz: unknown field; expected executor, description, config, model, reasonin"),
    "a name": ("name: p", "$.name: unknown field; a profile is called what its file is called"),
    "an unclear size": ("limits: {memory_bytes: 512m}", "expected a number of bytes, or text such as '512MiB' or"),
    "a duration in words": ("limits: {timeout_seconds: half an hour}", "expected a duration: seconds as a number, or"),
    "no time at all": ("limits: {timeout_seconds: 0}", "timeout_seconds: input should be greater than 0, found"),
    "an event that is too small": ("limits: {max_event_bytes: 1kB}", "greater than or equal to 4096"),
    "a size beyond all": ("limits: {memory_bytes: 99999999TB}", "memory_bytes: input should be less than or"),
    "a time without end": ("limits: {cpu_seconds: 1.0e+300}", "cpu_seconds: input should be less than or equal to 900"),
    "a number for a variable": ("environment: {set: {PORT: 80}}", "$.environment.set.PORT: input should be a valid"),
    "no name of a variable": ("secrets: [A-B]", "$.secrets[0]: string should match pattern"),
    "two sources": ("environment: {pass: [A], set: {A: x}}", "environment.set holds A, which pass or secrets take"),
    "a secret in the file": ("secrets: [A]\nenvironment: {set: {A: x}}", "environment.set holds A, which pass or sec"),
    "the worker's token": ("environment: {pass: [AO_COORDINATOR_TOKEN]}", "hold AO_COORDINATOR_TOKEN, expected no cre"),
    "the worker's token as a secret": ("secrets: [AO_COORDINATOR_TOKEN]", "hold AO_COORDINATOR_TOKEN, expected no cre"),
    "the worker's token set": ("environment: {set: {AO_COORDINATOR_TOKEN: x}}", "hold AO_COORDINATOR_TOKEN, expected"),
    "the worker's key for traces": ("secrets: [OTEL_EXPORTER_OTLP_HEADERS]", "hold OTEL_EXPORTER_OTLP_HEADERS, expec"),
    "an unknown containment": ("containment: jail", '$.containment: input should be "auto", "cgroup", "lifeline" or'),
    "an idle exit of nothing": ("idle_exit_seconds: 3", "idle_exit_seconds needs lifecycle: persistent, found"),
    "a pool without a size": ("warm: {}", '$.warm: "size" is a required property'),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_with_file_and_place(name: str, tmp_path: Path) -> None:
    text, words = WRONG[name]
    path = written(tmp_path, "p.yaml", f"executor: echo\n{text}\n")

    with pytest.raises(InvalidProfile) as caught:
        load_profile("p", tmp_path, {})

    assert str(caught.value).startswith(f"{path} is not a valid profile:\n  $")
    assert words in str(caught.value)


def test_a_name_is_looked_for_in_the_chosen_folder_and_then_in_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    written(home, "both.yaml", "executor: from-home\n")
    written(home, "home-only.json", '{"executor": "from-home"}')
    chosen = written(tmp_path, "both.yml", "executor: chosen\n", folder="chosen").parent
    environ = {"AO_PROFILES": str(chosen)}

    assert load_profile("both", home, environ).executor == "chosen"
    assert load_profile("home-only", home, environ).executor == "from-home"
    assert load_profile("both", home, {}).executor == "from-home"
    assert [(found.name, found.path.parent) for found in list_profiles(home, environ)] == [
        ("both", chosen),
        ("home-only", home / "profiles"),
    ]


def test_a_path_in_a_profile_counts_from_its_folder(tmp_path: Path) -> None:
    written(tmp_path, "p.yaml", "executor: ../bin/mine\n")

    assert load_profile("p", tmp_path, {}).executor == str(tmp_path / "profiles" / "../bin/mine")


def test_an_executor_for_which_nobody_wrote_a_profile_has_the_default_one(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.touch(mode=0o755)

    assert load_profile("echo", tmp_path, {}) == Profile.of_executor("echo")
    assert load_profile(str(mine), tmp_path, {}) == Profile(name="mine", executor=str(mine))


def test_a_profile_may_be_called_as_its_executor(tmp_path: Path) -> None:
    written(tmp_path, "echo.yaml", "executor: echo\nlimits: {timeout_seconds: 3}\n")

    assert load_profile("echo", tmp_path, {}).limits.timeout_seconds == 3


def test_an_unknown_name_says_which_profiles_and_executors_there_are(tmp_path: Path) -> None:
    written(tmp_path, "reviews.yaml", "executor: echo\n")

    with pytest.raises(ProfileNotFound) as caught:
        load_profile("review", tmp_path, {})

    assert "no profile or executor is called 'review'; profiles: reviews; executors: " in str(caught.value)
    assert "Did you mean 'reviews'?" in str(caught.value)


def test_a_profile_in_two_files_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "p.yaml", "executor: echo\n")
    written(tmp_path, "p.json", '{"executor": "echo"}')

    with pytest.raises(RunnerError, match=r"the profile p is defined in .*p\.yaml and .*p\.json; keep only one"):
        load_profile("p", tmp_path, {})


def test_a_chosen_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileFolderUnreadable, match="it is not a folder"):
        list_profiles(tmp_path, {"AO_PROFILES": str(tmp_path / "nowhere")})


def test_what_is_broken_does_not_hide_the_others(tmp_path: Path) -> None:
    written(tmp_path, "a.yaml", "executor: [\n")
    written(tmp_path, "b.yaml", "executor: echo\n")
    written(tmp_path, "c.yaml", "{}\n")
    written(tmp_path, "notes.txt", "no profile")

    first, second, third = list_profiles(tmp_path, {})

    assert (first.profile, second.problem, third.profile) == (None, None, None)
    assert "line 2" in str(first.problem)
    assert '$: "executor" is a required property' in str(third.problem)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("workspace: tree", '$.workspace: input should be "none", "worktree" or "copy", found "tree"'),
        (
            "workspace: copy\nlifecycle: persistent",
            "workspace: copy belongs to one session on one host; remove lifecycle",
        ),
        ("workspace: worktree\nwarm: {size: 1}", "workspace: worktree belongs to one session on one host; remove warm"),
        ("sandbox: {command: []}", "$.sandbox.command: "),
        ("sandbox: {command: [x, '{projectdir}']}", "$.sandbox.command: "),
        ("sandbox: {command: [x, '{projectdir}']}", "expected one of {project_dir}, {home}, {tmp}, found {projectdir}"),
        ("sandbox: {comand: [x]}", "$.sandbox.comand: unknown field; did you mean 'command'?"),
    ],
)
def test_a_workspace_or_sandbox_that_cannot_be_is_told_with_its_place(tmp_path: Path, lines: str, problem: str) -> None:
    path = written(tmp_path, "a.yaml", f"executor: echo\n{lines}\n")

    with pytest.raises(InvalidProfile) as caught:
        load_profile(str(path), tmp_path, {})

    assert problem in str(caught.value)


def test_only_the_places_of_a_run_are_filled_into_a_sandbox() -> None:
    command = ["srt", '{"a": {}}', "{project_dir}:{tmp}", "{HOME}"]

    filled = Sandbox(command=command).prefix(project_dir="/work/{tmp}", home="/root", tmp="/var/x")

    assert filled == ("srt", '{"a": {}}', "/work/{tmp}:/var/x", "{HOME}")


def test_what_an_executor_cannot_do_is_known_from_its_description() -> None:
    description = Description.model_validate(
        {"executor": {"name": "x", "version": "1"}, "config_schema": {"properties": {"model": {"type": "string"}}}}
    )
    profile = Profile(name="p", executor="x", config={"model": 7}, lifecycle="persistent")

    assert problems_with(profile, description) == [
        '$.config.model: 7 is not of type "string"',
        "$.lifecycle: persistent needs an executor with the capability multi_turn, which x does not have",
    ]
    assert problems_with(Profile.of_executor("x"), description) == []


def test_common_settings_are_fields_that_win_over_the_configuration(tmp_path: Path) -> None:
    text = "executor: x\nconfig: {model: a, turns: 2}\nmodel: b\nshow_reasoning: false\nadditional_folders: [docs]\n"
    profile = load_profile(str(written(tmp_path, "mine.yaml", text)), tmp_path, {})
    folder = str(tmp_path / "profiles" / "docs")
    assert profile.settings == {
        "model": "b", "turns": 2, "show_reasoning": False, "additional_folders": [folder],
    }  # fmt: skip


def test_a_common_setting_that_the_executor_does_not_declare_is_told_with_its_place() -> None:
    profile = Profile(name="x", executor="x", config={"access": "read"}, model="m", reasoning_effort="low")
    properties: JsonObject = {"model": {"type": "string"}}
    description = Description.model_validate(
        {
            "schema_versions": ["3.0"],
            "executor": {"name": "x", "version": "1"},
            "config_schema": {"type": "object", "properties": properties},
        }
    )
    assert problems_with(profile, description) == [
        "$.reasoning_effort: x has no setting 'reasoning_effort'; it has model",
        "$.config.access: x has no setting 'access'; it has model",
    ]


def test_the_toolkit_declares_each_common_setting() -> None:
    assert set(common_settings()) == set(COMMON_SETTINGS)


def test_a_config_schema_of_a_later_draft_is_told_in_words() -> None:
    description = Description.model_validate(
        {
            "executor": {"name": "x", "version": "1"},
            "config_schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
        }
    )

    (problem,) = problems_with(Profile.of_executor("x"), description)

    assert problem.startswith("$.config: cannot be checked: the config_schema of x is no valid JSON Schema Draft-7: $[")


def test_the_page_about_profiles_names_every_field() -> None:
    page = (EXAMPLES.parents[1] / "profiles.md").read_text(encoding="utf-8")
    fields = Profile.model_json_schema(by_alias=True)
    inner = {
        "environment": "Variables",
        "limits": "ProfileLimits",
        "sandbox": "Sandbox",
        "warm": "Warm",
        "input": "InputWait",
    }
    names = [
        f"{name}.{part}" if part else name
        for name in fields["properties"]
        for part in (fields["$defs"][inner[name]]["properties"] if name in inner else [""])
    ]

    assert re.findall(r"^\| `([a-z_.]+)` \|", page, re.MULTILINE) == [name for name in names if name != "name"]
