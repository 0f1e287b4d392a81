package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
	"unicode/utf8"
)

var executor = newObject("name", "go", "version", "0.1.0")
var events = os.Stdout

// perform is the work. A real executor would ask its model or start its program; these are hooks of the suite.
func perform(text string) string {
	if os.Getenv("AO_CONFORM_NOISE") != "" {
		fmt.Println("noise of a library")
		program := exec.Command("echo", "noise of a program")
		program.Stdout = os.Stdout
		program.Run()
	}
	seconds, _ := strconv.ParseFloat(os.Getenv("AO_CONFORM_LINGER_SECONDS"), 64)
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	return text
}

// Run is one run: its events in order, and the end of the process with the code that agrees.
type Run struct {
	sessionID, runID any
	seq, maxBytes    int
}

func newRun(asked *Object) *Run {
	run := &Run{maxBytes: 1048576}
	if asked == nil {
		return run
	}
	unique := fmt.Sprintf("%x%05d", time.Now().UnixNano(), os.Getpid())
	run.sessionID, run.runID = "ses_"+unique, "run_"+unique
	if given := asked.text("session_id"); given != "" {
		run.sessionID = given
	}
	if given := asked.text("run_id"); given != "" {
		run.runID = given
	}
	if most, ok := numberOf(asked.object("limits").get("max_event_bytes")); ok && most >= 4096 && most < 1<<31 {
		run.maxBytes = int(most)
	}
	return run
}

func (run *Run) emit(eventType string, fields ...any) {
	run.seq++
	event := newObject("event_type", eventType, "session_id", run.sessionID, "run_id", run.runID,
		"seq", json.Number(strconv.Itoa(run.seq)), "timestamp", time.Now().UTC().Format(time.RFC3339Nano))
	for i := 0; i < len(fields); i += 2 {
		event.set(fields[i].(string), fields[i+1])
	}
	events.WriteString(fit(event, run.maxBytes) + "\n")
}

func (run *Run) fail(status string, problem *Object, code int) {
	run.emit("failure", "status", status, "error", problem)
	os.Exit(code)
}

// fit returns an event as a line that is short enough: a text is cut, a failure goes without its details.
func fit(event *Object, maxBytes int) string {
	whole := toJSON(event)
	if len(whole) < maxBytes {
		return whole
	}
	if problem := event.object("error"); problem != nil {
		message := fmt.Sprintf("%.200s", problem.text("message"))
		event.set("error", fault(problem.text("type"), message, "origin", problem.text("origin")))
		return toJSON(event)
	}
	text := event.text("result_text")
	event.set("truncated", true)
	event.set("original_bytes", json.Number(strconv.Itoa(len(text))))
	low, high := 0, len(text)
	for low < high {
		middle := (low + high + 1) / 2
		event.set("result_text", beginning(text, middle))
		if len(toJSON(event)) < maxBytes {
			low = middle
		} else {
			high = middle - 1
		}
	}
	event.set("result_text", beginning(text, low))
	return toJSON(event)
}

func beginning(text string, bytes int) string {
	for bytes < len(text) && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}

func serve(asked *Object, lines *bufio.Reader, ended chan bool) {
	run := newRun(asked)
	problem := fault("invalid_json", "stdin has no line that is an object of I-JSON (SPEC 3)")
	if asked != nil {
		problem = refusal(asked)
	}
	run.emit("run_started", "schema_version", "3.0", "executor", executor)
	if problem != nil && problem.text("type") == "workspace_error" {
		run.fail("failed", problem, 1)
	} else if problem != nil {
		run.fail("failed", problem, 64)
	}
	if asked.object("control").get("stdin") == "open" {
		go listen(lines, ended)
	}
	answer := make(chan string, 1)
	go func() { answer <- perform(agentText(asked)) }()
	select {
	case text := <-answer:
		run.emit("result", "result_text", text, "result_data", nil, "stop_reason", "end_turn")
	case <-ended:
		run.fail("cancelled", fault("cancelled", "the run was cancelled"), 130)
	}
}
