package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Object is a JSON object whose fields keep their order.
type Object struct {
	Keys []string
	Of   map[string]any
}

func newObject(pairs ...any) *Object {
	object := &Object{Of: map[string]any{}}
	for i := 0; i < len(pairs); i += 2 {
		object.set(pairs[i].(string), pairs[i+1])
	}
	return object
}

func (object *Object) set(key string, value any) {
	if _, known := object.Of[key]; !known {
		object.Keys = append(object.Keys, key)
	}
	object.Of[key] = value
}

// get returns a field, or nil; also where there is no object.
func (object *Object) get(key string) any {
	if object == nil {
		return nil
	}
	return object.Of[key]
}

func (object *Object) object(key string) *Object {
	inner, _ := object.get(key).(*Object)
	return inner
}

func (object *Object) text(key string) string {
	text, _ := object.get(key).(string)
	return text
}

func (object *Object) has(key string) bool {
	return object != nil && object.Of[key] != nil
}

// parseLine reads one object under the rules of I-JSON (SPEC 3), which are stricter than those of encoding/json.
func parseLine(line []byte) (*Object, error) {
	line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
	if !utf8.Valid(line) {
		return nil, errors.New("not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	value, err := readValue(decoder, 1)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	object, ok := value.(*Object)
	if !ok {
		return nil, errors.New("no object")
	}
	return object, nil
}

func readValue(decoder *json.Decoder, depth int) (any, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if depth > 64 {
			return nil, errors.New("more than 64 levels")
		}
		if token == '{' {
			return readObject(decoder, depth)
		}
		return readArray(decoder, depth)
	case json.Number:
		return token, checkNumber(token.String())
	default:
		return token, nil
	}
}

func readObject(decoder *json.Decoder, depth int) (any, error) {
	object := newObject()
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key := token.(string)
		if _, known := object.Of[key]; known {
			return nil, errors.New("a key twice")
		}
		value, err := readValue(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		object.set(key, value)
	}
	_, err := decoder.Token()
	return object, err
}

func readArray(decoder *json.Decoder, depth int) (any, error) {
	array := []any{}
	for decoder.More() {
		value, err := readValue(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	_, err := decoder.Token()
	return array, err
}

func checkNumber(digits string) error {
	number, err := strconv.ParseFloat(digits, 64)
	if err == nil && !strings.ContainsAny(digits, ".eE") && math.Abs(number) > 1<<53-1 {
		err = errors.New("an integer out of range")
	}
	return err
}
