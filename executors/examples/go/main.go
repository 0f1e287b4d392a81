// An executor of the AO protocol 3.0: one JSON line in, JSON lines out. Put your agent into answer.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

const name, version = "go", "0.1.0"

// answer returns the agent's answer to a prompt; an error becomes a failure.
func answer(prompt string) (string, error) {
	return prompt, nil
}

// object is a JSON object; encoding/json sorts its keys.
type object map[string]any

// What Go code prints goes to stderr: stdout is for events only. A program that is started gets its own cmd.Stdout.
var events = os.Stdout

func main() {
	os.Stdout = os.Stderr
	if len(os.Args) == 2 && os.Args[1] == "describe" {
		emit(object{"schema_versions": []string{"3.0"}, "executor": object{"name": name, "version": version}})
		return
	}
	if len(os.Args) > 1 {
		fmt.Fprintln(os.Stderr, "usage: "+os.Args[0]+" [describe]")
		os.Exit(2)
	}
	line, err := bufio.NewReader(os.Stdin).ReadBytes('\n')
	emit(object{"event_type": "run_started"})
	if err != nil {
		fail("invalid_json", "stdin ended before there was a line: "+err.Error(), 64)
	}
	var invocation struct {
		SchemaVersion string `json:"schema_version"`
		Prompt        string `json:"prompt"`
	}
	if err := json.Unmarshal(line, &invocation); err != nil {
		fail("invalid_json", "the line is no invocation: "+err.Error(), 64)
	}
	if !strings.HasPrefix(invocation.SchemaVersion, "3.") {
		fail("unsupported_schema_version", fmt.Sprintf("%q is not supported, only 3.x is", invocation.SchemaVersion), 64)
	}
	if invocation.Prompt == "" {
		fail("invalid_invocation", "the invocation has no prompt", 64)
	}
	text, err := answer(invocation.Prompt)
	if err != nil {
		fail("internal_error", err.Error(), 1)
	}
	emit(object{"event_type": "result", "result_text": text})
}

// emit writes one line in one write; nothing is buffered.
func emit(document object) {
	line, err := json.Marshal(document)
	if err == nil {
		_, err = events.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stdout cannot be written:", err)
		os.Exit(1)
	}
}

func fail(kind, message string, code int) {
	emit(object{"event_type": "failure", "error": object{"type": kind, "message": message}})
	os.Exit(code)
}
