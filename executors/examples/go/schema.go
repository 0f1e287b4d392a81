package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"
)

//go:embed rules.json
var rulesText []byte
var rules, _ = parseLine(rulesText)
var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func at(key string) string {
	if plainKey.MatchString(key) {
		return "." + key
	}
	return "[" + toJSON(key) + "]"
}

// toJSON returns compact JSON with the keys in the order in which they stood, or sorted.
func toJSON(value any) string {
	return writeJSON(value, false)
}

func writeJSON(value any, sorted bool) string {
	parts := []string{}
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			parts = append(parts, writeJSON(item, sorted))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case *Object:
		keys := append([]string{}, value.Keys...)
		if sorted {
			sort.Strings(keys)
		}
		for _, key := range keys {
			parts = append(parts, writeJSON(key, sorted)+":"+writeJSON(value.Of[key], sorted))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case json.Number:
		if number, err := value.Float64(); sorted && err == nil {
			return fmt.Sprint(number) // 1.0 is 1
		}
		return value.String()
	default:
		text := strings.Builder{}
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false)
		encoder.Encode(value)
		return strings.TrimSuffix(text.String(), "\n")
	}
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case *Object:
		return "object"
	case []any:
		return "array"
	case json.Number:
		return "number"
	case bool:
		return "boolean"
	}
	return "string"
}

func is(kind string, value any) bool {
	number, ok := numberOf(value)
	return kind == kindOf(value) || kind == "integer" && ok && number == math.Trunc(number)
}

func numberOf(value any) (float64, bool) {
	digits, ok := value.(json.Number)
	number, _ := digits.Float64()
	return number, ok
}

func listed(value any) []any {
	if list, ok := value.([]any); ok || value == nil {
		return list
	}
	return []any{value}
}

func contains(list []any, matches func(any) bool) bool {
	for _, item := range list {
		if matches(item) {
			return true
		}
	}
	return false
}

// problems returns each way in which a value breaks a schema, as `path: message`.
// An own schema misses a field where it would be.
func problems(value any, schema *Object, path string, own bool) (found []string) {
	kinds := listed(schema.get("type"))
	if len(kinds) > 0 && !contains(kinds, func(kind any) bool { return is(kind.(string), value) }) {
		found = append(found, fmt.Sprintf("%s: is %s, expected %s", path, kindOf(value), toJSON(schema.get("type"))))
	}
	same := func(item any) bool { return writeJSON(item, true) == writeJSON(value, true) }
	if choices, ok := schema.get("enum").([]any); ok && !contains(choices, same) {
		found = append(found, fmt.Sprintf("%s: is none of %.200s", path, toJSON(choices)))
	}
	least, _ := numberOf(schema.get("minLength"))
	if text, ok := value.(string); ok && float64(utf8.RuneCountInString(text)) < least {
		found = append(found, path+": is too short")
	}
	if number, ok := numberOf(value); ok {
		minimum, limited := numberOf(schema.get("minimum"))
		above, exclusive := numberOf(schema.get("exclusiveMinimum"))
		if limited && number < minimum || exclusive && number <= above {
			found = append(found, path+": is too small")
		}
	}
	if object, ok := value.(*Object); ok {
		found = append(found, fieldProblems(object, schema, path, own)...)
	}
	if list, ok := value.([]any); ok && schema.has("items") {
		for index, item := range list {
			found = append(found, problems(item, schema.object("items"), fmt.Sprintf("%s[%d]", path, index), own)...)
		}
	}
	return found
}
