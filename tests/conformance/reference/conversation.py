"""One run with the model: ask, let tools work, read the answer, ask again (SPEC 9)."""

import os
from collections.abc import Callable
from typing import Any

import tools
from answers import Reading, judge, read_answer
from asking import asked_again, with_demand
from contracts import Contract, answer_in, tool_schema
from errors import RunFailed
from events import Emitter
from messages_api import Answer, MessagesApi
from sessions import Session
from watch import Watch

DEFAULT_MODEL, DEFAULT_MAX_TOKENS, DEFAULT_API_RETRIES = "reference-model", 4096, 2
NATIVE_TOOL, ANSWER_TOOL = "StructuredOutput", "submit_answer"
NOT_DONE = "the run ended before"
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.1, 2.0
INPUT_USD_PER_TOKEN, OUTPUT_USD_PER_TOKEN = 3e-6, 15e-6
SENT_WITH = {
    "system_prompt": "system_prompt",
    "prompt": "prompt",
    "extract": "nothing",
    "native": "native",
    "tool": "tool",
}
COUNTED = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
TRANSIENT = {"rate_limited", "provider_unavailable"}


class Conversation:
    """Asks the model for the answer of one run. `usage` has the totals of the run so far."""

    def __init__(self, emitter: Emitter, watch: Watch, toolbox: tools.Toolbox, api: MessagesApi) -> None:
        self._emitter, self._watch, self._toolbox, self._api = emitter, watch, toolbox, api
        self.usage: dict[str, Any] = {}
        self.attached: list[dict[str, Any]] = []
        self.before_work: Callable[[], None] = lambda: None
        self._turns = 0
        self._delivers = {NATIVE_TOOL}
        self._submitted: list[dict[str, Any]] = []

    def perform(
        self, session: Session, prompt: str, contract: Contract | None, invocation: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the fields of the `result`. Without a prompt the run goes on where it was parked.

        Raises:
            RunFailed: there is none.
        """
        self._config = invocation.get("executor_config", {})
        self._limits = invocation.get("limits", {})
        self._session, self._contract = session, contract
        if contract is not None and contract.strategy == "tool":
            self._delivers = {NATIVE_TOOL, ANSWER_TOOL}
        is_new = bool(prompt)
        if contract is not None and contract.strategy == "prompt":
            prompt = with_demand(prompt, contract.schema)
        for undone in session.pending() if is_new else ():
            session.say(tools.tool_result(undone, NOT_DONE, is_error=True))
        if is_new:
            session.say(*self.attached)
            session.say(_text(prompt))
        self.before_work()
        self._use_tools(session.pending())
        if contract is None:
            answer = self._answer()
            return {"result_text": answer.text, "result_data": None, "stop_reason": answer.stop_reason}
        return self._contracted(contract, session)

    def _contracted(self, contract: Contract, session: Session) -> dict[str, Any]:
        answer, retry_count = Answer(), 0
        sent = [SENT_WITH[contract.strategy]]
        while True:
            if not self._submitted:
                answer = self._answer()
            use = self._submitted.pop(0) if self._submitted else None
            if answer.stop_reason in {"max_tokens", "model_context_window_exceeded"}:
                message = f"the answer was cut off ({answer.stop_reason}); ask for less or allow more tokens"
                raise RunFailed("output_truncated", message)
            reading, is_native = _read(answer, contract) if use is None else (_submission(use, contract), False)
            left = contract.max_retries - retry_count
            verdict = {"attempt": retry_count + 1, "valid": not reading.problems, "errors": reading.problems}
            self._emitter.emit("output_validation", **verdict, retries_left=left)
            if not reading.problems:
                self._emit_message(answer)
                break
            if left == 0:
                message = f"the answer does not fit after {retry_count} more attempt(s): {reading.problems[0]}"
                raise RunFailed(contract.fails_as, message, validation_errors=reading.problems)
            retry_count += 1
            if use is not None:
                session.say(tools.tool_result(use, asked_again(contract, reading.problems, "{}"), is_error=True))
                continue
            sent.append("re_prompt")
            session.say(_text(asked_again(contract, reading.problems, answer.text)))
        output = {
            "schema_source": contract.source,
            "retry_count": retry_count,
            "ambiguous": reading.is_ambiguous,
            "strategy": contract.strategy,
            "sent": sent,
            "delivered_by": "tool" if use else "native" if is_native else "text",
        }
        self._accept(use)
        stop_reason = "end_turn" if is_native or use is not None else answer.stop_reason
        if reading.edits:
            output["edits"] = reading.edits
        return {"result_text": None, "result_data": reading.value, "stop_reason": stop_reason, "output": output}

    def _accept(self, use: dict[str, Any] | None) -> None:
        """Answer the call that is the answer, and those behind it."""
        for accepted in () if use is None else (use, *self._submitted):
            self._session.say(tools.tool_result(accepted, "received"))

    def _answer(self) -> Answer:
        """Return the answer behind as many rounds of tools as the model wants."""
        while True:
            self._require_a_turn()
            message_id = "msg_" + os.urandom(8).hex()
            answer = self._asked(message_id)
            self._count(answer)
            self._emit_reasoning(answer, message_id)
            if kept := _kept(answer.blocks):
                self._session.messages.append({"role": "assistant", "content": kept})
            asked_tools = [use for use in answer.tool_uses if use.get("name") not in self._delivers]
            if self._contract is None or asked_tools:
                self._emit_message(answer, message_id)
            self._use_tools(answer.tool_uses)
            self._require_within_cost()
            if answer.stop_reason == "refusal":
                raise RunFailed("content_refused", "the model refuses to answer; ask differently")
            if answer.stop_reason == "model_context_window_exceeded" and self._contract is None:
                raise RunFailed("context_window_exceeded", "the conversation no longer fits the model; begin a new one")
            if self._submitted:
                return answer
            if not asked_tools:
                return answer

    def _use_tools(self, uses: list[dict[str, Any]]) -> None:
        for index, use in enumerate(uses):
            if use.get("name") == NATIVE_TOOL:
                self._session.say(tools.tool_result(use, "received"))
                continue
            if use.get("name") in self._delivers:
                self._submitted.append(use)
                continue
            try:
                self._session.say(self._toolbox.perform(use))
            except RunFailed as failed:
                if failed.error_type == "input_required":
                    raise
                for left in uses[index:]:
                    self._session.say(tools.tool_result(left, NOT_DONE, is_error=True))
                raise

    def _asked(self, message_id: str) -> Answer:
        attempt = 1
        has_spoken = False

        def on_thought(text: str) -> None:
            nonlocal has_spoken
            if self._shows_reasoning and text:
                has_spoken = True
                block = {"type": "reasoning", "text": text}
                name = f"{message_id}_reasoning"
                self._emitter.emit("message_delta", message_id=name, role="assistant", content=[block])

        def on_text(text: str, kind: str = "text") -> None:
            nonlocal has_spoken
            if kind == "reasoning":
                on_thought(text)
                return
            if self._contract is None and text:
                has_spoken = True
                self._emitter.emit("message_delta", message_id=message_id, role="assistant", content=[_text(text)])

        while True:
            try:
                return self._api.ask(self._request(), on_text)
            except RunFailed as failed:
                delay = failed.fields.get("retry_after_seconds", FIRST_DELAY_SECONDS * attempt)
                is_last = attempt > self._config.get("max_api_retries", DEFAULT_API_RETRIES)
                if failed.error_type not in TRANSIENT or is_last or has_spoken or delay > LONGEST_DELAY_SECONDS:
                    raise
                error = {"type": failed.error_type, "message": failed.message}
                self._emitter.emit("retry_scheduled", error=error, attempt=attempt, delay_seconds=delay)
                self._watch.attend({}, "retry_wait", delay)
                attempt += 1

    def _request(self) -> dict[str, Any]:
        contract, system = self._contract, self._session.system_prompt
        declared = list(tools.DECLARED)
        if contract is not None and contract.strategy == "system_prompt":
            system = with_demand(system, contract.schema)
        if contract is not None and contract.strategy == "native":
            description = "Give the final answer with this tool."
            declared.append({"name": NATIVE_TOOL, "description": description, "input_schema": contract.schema})
        if ANSWER_TOOL in self._delivers and contract is not None:
            description = "Submit the final answer with this tool. Only what is submitted counts."
            declared.append({"name": ANSWER_TOOL, "description": description, "input_schema": tool_schema(contract)})
        request = {
            "model": self._config.get("model", DEFAULT_MODEL),
            "max_tokens": int(self._config.get("max_tokens", DEFAULT_MAX_TOKENS)),
            "messages": self._session.messages,
            "tools": declared,
        }
        return request | ({"system": system} if system else {})

    def _emit_message(self, answer: Answer, message_id: str | None = None) -> None:
        if answer.text:
            message_id = message_id or "msg_" + os.urandom(8).hex()
            self._emitter.emit("message", message_id=message_id, role="assistant", content=[_text(answer.text)])

    @property
    def _shows_reasoning(self) -> bool:
        return bool(self._config.get("show_reasoning", True))

    def _emit_reasoning(self, answer: Answer, message_id: str) -> None:
        """Report what the model thought, in a message of its own before the one that it leads to."""
        if answer.thoughts and self._shows_reasoning:
            content = [{"type": "reasoning", "text": answer.thoughts}]
            self._emitter.emit("message", message_id=f"{message_id}_reasoning", role="assistant", content=content)

    def _count(self, answer: Answer) -> None:
        for name in (*COUNTED, "reasoning_tokens"):
            if name in answer.usage:
                self.usage[name] = self.usage.get(name, 0) + answer.usage[name]
        cost = self.usage.get("input_tokens", 0) * INPUT_USD_PER_TOKEN
        self.usage["cost_usd"] = cost + self.usage.get("output_tokens", 0) * OUTPUT_USD_PER_TOKEN
        self._emitter.emit("usage", **self.usage)

    def _require_a_turn(self) -> None:
        self._turns += 1
        most = self._limits.get("max_turns")
        if most is not None and self._turns > most:
            raise RunFailed("limit_exceeded", f"max_turns of {most:g} was reached; allow more")

    def _require_within_cost(self) -> None:
        most = self._limits.get("max_cost_usd")
        if most is not None and self.usage["cost_usd"] >= most:
            raise RunFailed("limit_exceeded", f"max_cost_usd of {most:g} was reached; allow more")


def _read(answer: Answer, contract: Contract) -> tuple[Reading, bool]:
    native = [use for use in answer.tool_uses if use.get("name") == NATIVE_TOOL]
    if native:
        value = native[-1].get("input")
        return Reading(value, judge(value, contract), edits=[]), True
    return read_answer(answer.text, contract), False


def _submission(use: dict[str, Any], contract: Contract) -> Reading:
    value = answer_in(use.get("input"), contract)
    return Reading(value, judge(value, contract), edits=[])


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _kept(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [block for block in blocks if block["type"] == "tool_use" or (block["type"] == "text" and block["text"])]
