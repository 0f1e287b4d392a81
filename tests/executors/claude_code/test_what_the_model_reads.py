"""System prompt, schema and prompt arrive at the model exactly as they were written."""

from tests.executors.claude_code.claude import agent
from tests.executors.claude_code.conftest import StartClaude


def test_a_prompt_is_not_interpreted(start_claude: StartClaude) -> None:
    prompt = "/cost and @/etc/passwd and \\u0041, “quotes”, <b>, 🙂\n\n  indented\n"
    claude = start_claude({"text": "Yes."})
    run = claude.run(parameters={"prompt": prompt})
    assert run.terminal["result_text"] == "Yes."
    assert claude.model.requests[0].last_user_text == prompt


def test_parameters_of_an_agents_own_arrive_as_a_block(start_claude: StartClaude) -> None:
    schema = {"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}}}
    claude = start_claude({"text": "Yes."})
    claude.run(parameters={"topic": "AI Safety", "max_words": 500}, agent_blueprint=agent(parameters_schema=schema))
    assert claude.model.requests[0].last_user_text == "<inputs>\ntopic: AI Safety\nmax_words: 500\n</inputs>"


def test_parameters_that_do_not_fit_are_refused_before_any_model_is_asked(start_claude: StartClaude) -> None:
    schema = {"type": "object", "required": ["topic"], "properties": {"topic": {"type": "string"}}}
    claude = start_claude()
    run = claude.run(parameters={"topic": 3}, agent_blueprint=agent(parameters_schema=schema))
    assert (run.exit_code, run.error["type"]) == (64, "parameters_validation_failed")
    assert run.error["details"] == {"validation_errors": ["$.topic: 3 is not of type 'string'"], "schema": schema}
    assert claude.model.all_requests == ()


def test_a_system_prompt_over_128_kib_arrives_whole(start_claude: StartClaude) -> None:
    system_prompt = "Rule: be kind. 🙂\n" * 12_000
    claude = start_claude({"text": "Yes."})
    assert claude.run(agent_blueprint=agent(system_prompt=system_prompt)).exit_code == 0
    assert system_prompt.strip() in claude.model.requests[0].system_text


def test_an_answer_over_one_mebibyte_is_whole_where_the_invocation_allows_it(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "0123456789abcdef", "text_times": 100_000})
    run = claude.run(limits={"max_event_bytes": 4 * 1024 * 1024})
    assert run.terminal["result_text"] == "0123456789abcdef" * 100_000


def test_an_answer_over_one_mebibyte_is_cut_and_says_so_otherwise(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "0123456789abcdef", "text_times": 100_000})
    run = claude.run()
    assert run.exit_code == 0
    assert (run.terminal["truncated"], run.terminal["original_bytes"]) == (True, 1_600_000)
    assert max(map(len, run.stdout.splitlines(keepends=True))) <= 1024 * 1024


def test_an_unsupported_major_version_asks_no_model(start_claude: StartClaude) -> None:
    claude = start_claude()
    run = claude.run(schema_version="4.0")
    assert (run.exit_code, run.error["type"]) == (64, "unsupported_schema_version")
    assert run.error["details"] == {"requested": "4.0", "supported": ["3.0", "2.2", "2.1"]}
    assert claude.model.all_requests == ()
