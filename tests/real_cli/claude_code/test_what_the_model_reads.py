"""System prompt, schema and prompt arrive at the model exactly as they were written."""

from tests.real_cli.claude_code.claude import agent
from tests.real_cli.claude_code.conftest import StartClaude


def test_a_prompt_is_not_interpreted(start_claude: StartClaude) -> None:
    prompt = "/cost and @/etc/passwd and \\u0041, “quotes”, <b>, 🙂\n\n  indented\n"
    claude = start_claude({"text": "Yes."})
    run = claude.run(parameters={"prompt": prompt})
    assert run.terminal["result_text"] == "Yes."
    assert claude.model.requests[0].last_user_text == prompt


def test_a_system_prompt_over_128_kib_arrives_whole(start_claude: StartClaude) -> None:
    system_prompt = "Rule: be kind. 🙂\n" * 12_000
    claude = start_claude({"text": "Yes."})
    assert claude.run(agent_blueprint=agent(system_prompt=system_prompt)).exit_code == 0
    assert system_prompt.strip() in claude.model.requests[0].system_text


def test_an_answer_over_one_mebibyte_is_whole_where_the_invocation_allows_it(start_claude: StartClaude) -> None:
    claude = start_claude({"text": "0123456789abcdef", "text_times": 100_000})
    run = claude.run(limits={"max_event_bytes": 4 * 1024 * 1024})
    assert run.terminal["result_text"] == "0123456789abcdef" * 100_000
