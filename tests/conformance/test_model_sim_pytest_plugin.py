"""The fixture `model_sim`, as a stranger's test-suite uses it."""

import pytest

pytest_plugins = ["pytester"]

HEAD = """
import json
import urllib.request

pytest_plugins = ["ao_model_simulator.pytest_plugin"]


def ask(sim):
    url = sim.base_url("openai-chat") + "/chat/completions"
    turn = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(turn).encode())) as response:
        return json.load(response)["choices"][0]["message"]["content"]
"""


def outcomes(pytester: pytest.Pytester, tests: str) -> tuple[dict[str, int], str]:
    pytester.makepyfile(HEAD + tests)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    return result.parseoutcomes(), result.stdout.str()


def test_simulators_are_given_and_checked(pytester: pytest.Pytester) -> None:
    passed, _ = outcomes(
        pytester,
        """
def test_it(model_sim, tmp_path):
    path = tmp_path / "script.json"
    path.write_text('{"answers": [{"text": "from a file"}]}')
    first, second = model_sim([{"text": "Hello."}]), model_sim(path)
    assert [ask(first), ask(second)] == ["Hello.", "from a file"]
    assert first.requests[0].last_user_text == "Hi"
""",
    )
    assert passed == {"passed": 1}


def test_an_unsatisfied_script_fails_a_test_that_passed_and_says_why(pytester: pytest.Pytester) -> None:
    found, report = outcomes(
        pytester,
        """
def test_unused(model_sim):
    model_sim([{"text": "Hello."}])

def test_unused_and_not_strict(model_sim):
    model_sim([{"text": "Hello."}], strict=False)

def test_unused_on_purpose(model_sim):
    model_sim([{"text": "Hello."}], satisfied=False)
""",
    )
    assert found == {"passed": 3, "errors": 1}
    assert "1 of the script's answers were not asked for" in report


def test_a_test_that_failed_is_not_blamed_twice_and_leaves_nothing(pytester: pytest.Pytester) -> None:
    found, report = outcomes(
        pytester,
        """
import threading

def test_failing(model_sim):
    model_sim([{"text": "Hello."}])
    assert False

def test_after_it():
    assert not [t for t in threading.enumerate() if t.name.startswith("model-sim")]
""",
    )
    assert found == {"passed": 1, "failed": 1}
    assert "were not asked for" not in report
