// An executor of the AO protocol 3.0 in Go, without modules from elsewhere: it answers with what it was asked.
// ijson.go reads lines; judge.go, refusal.go and schema.go say whether it can be performed, run.go performs it.
// This file is stdin: the line, what follows it, and signals.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Stdout = os.Stderr // descriptor 1 is for events; whatever prints goes to stderr
	terminal, _ := os.Stdin.Stat()
	switch {
	case len(os.Args) == 2 && os.Args[1] == "describe":
		capabilities := newObject("cancel", true)
		description := newObject("schema_versions", []any{"3.0"}, "executor", executor, "capabilities", capabilities)
		events.WriteString(toJSON(description) + "\n")
	case len(os.Args) > 1 || terminal == nil || terminal.Mode()&os.ModeCharDevice != 0 && isTerminal():
		fmt.Fprintln(os.Stderr, "usage: ao-__NAME__-exec < invocation.json    or: ao-__NAME__-exec describe")
		os.Exit(2)
	default:
		lines := bufio.NewReaderSize(os.Stdin, 1<<16)
		ended := cancelOnSignal()
		asked, _ := parseLine(firstLine(lines))
		started <- true
		serve(withoutNulls(asked), lines, ended)
	}
}

var started = make(chan bool, 1)

// isTerminal tells a terminal from /dev/null, which is a character device, too.
func isTerminal() bool {
	_, err := os.Readlink("/proc/self/fd/0")
	path, _ := os.Readlink("/proc/self/fd/0")
	return err != nil || path != os.DevNull
}

// cancelOnSignal lets SIGTERM end the process, and once a run has begun, the run.
func cancelOnSignal() chan bool {
	ended, signals := make(chan bool, 2), make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		select {
		case <-started:
			ended <- true
		default:
			os.Exit(0)
		}
	}()
	return ended
}

// firstLine returns the first line that is not blank; the end of stdin ends it too.
func firstLine(lines *bufio.Reader) []byte {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil || len(bytes.TrimSpace(line)) > 0 {
			return line
		}
	}
}

// listen hears control lines: a cancel ends the run, and so does the end of stdin where it is no file.
func listen(lines *bufio.Reader, ended chan bool) {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		control, err := parseLine(line)
		if err == nil && control.get("type") == "cancel" && (!control.has("reason") || is("string", control.get("reason"))) {
			ended <- true
			return
		}
	}
	if info, err := os.Stdin.Stat(); err != nil || !info.Mode().IsRegular() {
		ended <- true
	}
}

// withoutNulls drops what is null on the first level: it means absent.
func withoutNulls(asked *Object) *Object {
	if asked == nil {
		return nil
	}
	present := newObject()
	for _, key := range asked.Keys {
		if asked.Of[key] != nil {
			present.set(key, asked.Of[key])
		}
	}
	return present
}
