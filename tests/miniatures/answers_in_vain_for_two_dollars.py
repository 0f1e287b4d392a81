#!/usr/bin/env python3
"""Costs two dollars with each answer, none of which fits, and shows as its session what it may still cost."""

from speaking import Speaker  # type: ignore[import-not-found]  # a script finds its own folder

speaker = Speaker(resume=True)
speaker.start()
speaker.say("session_bound", executor_session_id=f"may cost {speaker.invocation['limits']['max_cost_usd']:g}")
speaker.say("usage", input_tokens=1, output_tokens=1, cost_usd=2)
speaker.result("no JSON")
