package main

import (
	"fmt"
	"regexp"
	"strings"
)

func fieldProblems(object, schema *Object, path string, own bool) (found []string) {
	for _, key := range listed(schema.get("required")) {
		if _, there := object.Of[key.(string)]; !there {
			place := path
			if own {
				place += at(key.(string))
			}
			found = append(found, fmt.Sprintf("%s: '%s' is missing", place, key))
		}
	}
	for _, key := range object.Keys {
		part := schema.object("properties").get(key)
		if part == nil {
			part = schema.get("additionalProperties")
		}
		if inner, ok := part.(*Object); ok {
			found = append(found, problems(object.Of[key], inner, path+at(key), own)...)
		} else if part == false {
			found = append(found, fmt.Sprintf("%s: '%s' is not allowed", path, key))
		}
	}
	return found
}

func invocationProblems(asked *Object) []string {
	found := problems(asked, rules.object("invocation"), "$", true)
	blueprint := asked.object("agent_blueprint")
	if servers := blueprint.object("mcp_servers"); servers != nil {
		for _, key := range servers.Keys {
			found = append(found, serverProblems(servers.Of[key], "$.agent_blueprint.mcp_servers"+at(key))...)
		}
	}
	if blueprint.object("output_schema") != nil && blueprint.object("output_format") != nil {
		found = append(found, "$.agent_blueprint: output_schema and output_format contradict each other")
	}
	if dir := asked.text("project_dir"); dir != "" && !strings.HasPrefix(dir, "/") {
		found = append(found, "$.project_dir: expected an absolute path")
	}
	if asked.get("mode") == "resume" && !asked.has("executor_session_id") {
		found = append(found, "$: executor_session_id is missing")
	}
	return found
}

func serverProblems(value any, path string) []string {
	server, _ := value.(*Object)
	form := rules.object("remote")
	if kind := server.get("type"); kind == nil || kind == "stdio" {
		form = rules.object("program")
	}
	found := problems(value, form, path, true)
	if url := server.text("url"); url != "" && !regexp.MustCompile("^https?://").MatchString(url) {
		found = append(found, path+".url: expected http:// or https://")
	}
	return found
}

// parts returns the schemas within a schema. What is no object among the properties is in it, too.
func parts(schema *Object) (found []any) {
	if properties := schema.object("properties"); properties != nil {
		for _, key := range properties.Keys {
			found = append(found, properties.Of[key])
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner := schema.object(key); inner != nil {
			found = append(found, inner)
		}
	}
	return found
}

func flaws(schema *Object) (found []string) {
	copied := newObject()
	for _, key := range schema.Keys {
		copied.set(key, schema.Of[key])
	}
	if schema.has("type") {
		copied.set("type", listed(schema.Of["type"]))
	}
	if !strings.HasPrefix(schema.text("$ref")+"#", "#") {
		found = append(found, "$.$ref: refers to something outside")
	}
	found = append(found, nameFlaws(copied)...)
	found = append(found, problems(copied, rules.object("schema"), "$", true)...)
	for _, part := range parts(schema) {
		if inner, ok := part.(*Object); ok {
			found = append(found, flaws(inner)...)
		}
	}
	return found
}

// nameFlaws returns what is wrong with the lists of names in a schema.
func nameFlaws(schema *Object) (found []string) {
	if schema.has("type") && len(listed(schema.get("type"))) == 0 {
		found = append(found, "$.type: names no type")
	}
	for _, key := range []string{"type", "required"} {
		seen := map[string]bool{}
		names := listed(schema.get(key))
		for _, name := range names {
			seen[toJSON(name)] = true
		}
		if len(seen) < len(names) {
			found = append(found, "$."+key+": has a name twice")
		}
	}
	return found
}

// notJudged returns the keywords that this executor does not judge: it refuses what it cannot judge.
func notJudged(schema *Object) (found []any) {
	for _, key := range schema.Keys {
		if !rules.object("schema").object("properties").has(key) {
			found = append(found, "parameters_schema:"+key)
		}
	}
	if schema.has("items") && schema.object("items") == nil {
		found = append(found, "parameters_schema:items")
	}
	for _, part := range parts(schema) {
		if inner, ok := part.(*Object); ok {
			found = append(found, notJudged(inner)...)
		} else {
			found = append(found, "parameters_schema:boolean schema")
		}
	}
	return found
}
