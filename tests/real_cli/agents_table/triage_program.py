#!/usr/bin/env python3
"""The blueprint of the table as a program, for `ao-procedural-exec`: parameters as arguments, JSON on stdout.

usage: triage_program.py [--urgent] --report TEXT
"""

import argparse
import json
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--report", required=True)
parser.add_argument("--urgent", action="store_true")
asked = parser.parse_args()
if asked.report == "wait":
    print("waiting", file=sys.stderr, flush=True)  # noqa: T201
    time.sleep(600)
wrong = asked.report == "wrong"
severity = "huge" if wrong else "high" if asked.urgent else "low"
print(json.dumps({"severity": severity, "report": asked.report}))  # noqa: T201
