//! The part of JSON Schema Draft-7 that this executor judges: small, and never slow.

use crate::json::Json;
use crate::reader::parse_line;

/// The forms of invocations and of schemas, written as schemas.
pub fn rules() -> Json {
    parse_line(include_bytes!("rules.json")).expect("rules.json")
}

pub fn at(key: &str) -> String {
    let mut letters = key.chars();
    let first = letters.next().map_or(false, |letter| letter.is_ascii_alphabetic() || letter == '_');
    if first && letters.all(|letter| letter.is_ascii_alphanumeric() || "_-".contains(letter)) {
        return format!(".{key}");
    }
    format!("[{}]", Json::Text(key.to_string()).line())
}

fn kind_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::Text(_) => "string",
        Json::List(_) => "array",
        Json::Object(_) => "object",
    }
}

fn is(kind: &str, value: &Json) -> bool {
    kind == kind_of(value) || (kind == "integer" && value.number().map_or(false, |number| number.fract() == 0.0))
}

/// Whether two values are equal: 1.0 is 1, and the order of keys says nothing.
fn same(one: &Json, other: &Json) -> bool {
    let pairs = || one.items().iter().zip(other.items());
    match (one, other) {
        (Json::Number(_), Json::Number(_)) => one.number() == other.number(),
        (Json::List(a), Json::List(b)) => a.len() == b.len() && pairs().all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, item)| b.iter().any(|(k, v)| k == key && same(v, item)))
        }
        _ => one == other,
    }
}

pub fn listed(value: &Json) -> Vec<Json> {
    match value {
        Json::Null => vec![],
        Json::List(items) => items.clone(),
        _ => vec![value.clone()],
    }
}

/// Each way in which a value breaks a schema, as `path: message`. An own schema misses a field where it would be.
pub fn problems(value: &Json, schema: &Json, path: &str, own: bool) -> Vec<String> {
    let mut found = Vec::new();
    let kinds = listed(schema.get("type"));
    if !kinds.is_empty() && !kinds.iter().any(|kind| is(kind.text().unwrap_or(""), value)) {
        found.push(format!("{path}: is {}, expected {}", kind_of(value), schema.get("type").line()));
    }
    if let Json::List(choices) = schema.get("enum") {
        if !choices.iter().any(|choice| same(choice, value)) {
            let shown: String = schema.get("enum").line().chars().take(200).collect();
            found.push(format!("{path}: is none of {shown}"));
        }
    }
    if let (Some(text), Some(least)) = (value.text(), schema.get("minLength").number()) {
        if (text.chars().count() as f64) < least {
            found.push(format!("{path}: is too short"));
        }
    }
    if let Some(number) = value.number() {
        let below = schema.get("minimum").number().map_or(false, |minimum| number < minimum);
        if below || schema.get("exclusiveMinimum").number().map_or(false, |bound| number <= bound) {
            found.push(format!("{path}: is too small"));
        }
    }
    if value.is_object() {
        found.extend(field_problems(value, schema, path, own));
    }
    if schema.get("items").is_object() {
        for (index, item) in value.items().iter().enumerate() {
            found.extend(problems(item, schema.get("items"), &format!("{path}[{index}]"), own));
        }
    }
    found
}

fn field_problems(value: &Json, schema: &Json, path: &str, own: bool) -> Vec<String> {
    let mut found = Vec::new();
    for key in schema.get("required").items().iter().filter_map(Json::text) {
        if !value.fields().iter().any(|(name, _)| name == key) {
            let place = if own { at(key) } else { String::new() };
            found.push(format!("{path}{place}: '{key}' is missing"));
        }
    }
    for (key, item) in value.fields() {
        match (schema.get("properties").get(key), schema.get("additionalProperties")) {
            (part @ Json::Object(_), _) | (Json::Null, part @ Json::Object(_)) => {
                found.extend(problems(item, part, &format!("{path}{}", at(key)), own));
            }
            (Json::Null, Json::Bool(false)) => found.push(format!("{path}: '{key}' is not allowed")),
            _ => {}
        }
    }
    found
}
