package main

import (
	"os"
	"regexp"
	"strings"
)

var version = regexp.MustCompile(`^(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})$`)
var space = `[\s\x{0B}\x{1C}-\x{1F}\x{85}\p{Z}]*`
var inputsTag = regexp.MustCompile(`(?i)<(` + space + `/?` + space + `inputs)([^\pL\pN_]|$)`)
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)
var lineEnd = regexp.MustCompile(`\r\n|[\n\r\v\f\x{1C}-\x{1E}\x{85}\x{2028}\x{2029}]`)

// refusal returns the error that an invocation ends with before any work, or nil.
func refusal(asked *Object) *Object {
	requested := asked.text("schema_version")
	if !version.MatchString(requested) {
		return invalid([]string{"$.schema_version: expected a version such as 3.0"})
	}
	if !strings.HasPrefix(requested, "3.") {
		details := newObject("requested", requested, "supported", []any{"3.0"})
		return fault("unsupported_schema_version", requested+" is not spoken here, only 3.0 is", "details", details)
	}
	if found := invocationProblems(asked); len(found) > 0 {
		return invalid(found)
	}
	if needed := listed(asked.get("requires")); len(needed) > 0 {
		return lacking(needed...)
	}
	if asked.get("mode") == "resume" {
		return lacking("resume")
	}
	if asked.object("agent_blueprint").get("type") == "procedural" {
		return lacking("agent_type:procedural")
	}
	if problem := schemaRefusal(asked); problem != nil {
		return problem
	}
	if dir := asked.text("project_dir"); dir != "" && !isDirectory(dir) {
		return fault("workspace_error", dir+" is no directory", "origin", "environment")
	}
	return nil
}

func schemaRefusal(asked *Object) *Object {
	schema := asked.object("agent_blueprint").object("parameters_schema")
	if schema == nil {
		schema = rules.object("prompt")
	}
	if found := flaws(schema); len(found) > 0 {
		return invalid([]string{"$.agent_blueprint.parameters_schema: in it, " + strings.Join(found, "; ")})
	}
	if unknown := notJudged(schema); len(unknown) > 0 {
		return lacking(unknown...)
	}
	found := problems(asked.object("parameters"), schema, "$", false)
	if len(found) == 0 {
		return nil
	}
	details := newObject("validation_errors", anys(found), "schema", schema)
	message := strings.Join(found, "; ")
	return fault("parameters_validation_failed", message, "validation_errors", anys(found), "details", details)
}

// agentText returns what the agent receives: the prompt, or the <inputs> block (SPEC 8.2).
func agentText(asked *Object) string {
	parameters := asked.object("parameters")
	if !asked.object("agent_blueprint").has("parameters_schema") {
		return parameters.text("prompt")
	}
	body := strings.Builder{}
	for _, key := range parameters.Keys {
		name := key
		if !plainName.MatchString(key) {
			name = escaped(key)
		}
		body.WriteString(name + ": " + shown(parameters.Of[key]) + "\n")
	}
	return "<inputs>\n" + inputsTag.ReplaceAllString(body.String(), "&lt;$1$2") + "</inputs>"
}

func shown(value any) string {
	text, ok := value.(string)
	if !ok || text == "" {
		return escaped(value)
	}
	lines := lineEnd.Split(text, -1)
	if len(lines) == 1 {
		return text
	}
	return "|\n  " + strings.Join(lines, "\n  ")
}

func escaped(value any) string {
	return strings.ReplaceAll(toJSON(value), "\u0085", `\u0085`)
}

func fault(kind, message string, more ...any) *Object {
	object := newObject("type", kind, "message", message, "retryable", false, "side_effects", "none", "origin", "caller")
	for i := 0; i < len(more); i += 2 {
		object.set(more[i].(string), more[i+1])
	}
	return object
}

func invalid(found []string) *Object {
	return fault("invalid_invocation", strings.Join(found, "; "), "details", newObject("problems", anys(found)))
}

func lacking(missing ...any) *Object {
	return fault("unsupported_capability", "not served here: "+toJSON(missing), "details", newObject("missing", missing))
}

func anys(texts []string) (list []any) {
	for _, text := range texts {
		list = append(list, text)
	}
	return list
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
