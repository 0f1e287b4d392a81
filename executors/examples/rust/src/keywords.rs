//! Schemas that come from elsewhere: whether one is a schema, and whether all of it is judged here.

use crate::json::Json;
use crate::schema::{listed, problems};
use std::collections::HashSet;

fn parts(schema: &Json) -> Vec<&Json> {
    let others = ["items", "additionalProperties"].map(|key| schema.get(key));
    let inner = others.into_iter().filter(|part| part.is_object());
    schema.get("properties").fields().iter().map(|(_, part)| part).chain(inner).collect()
}

/// What makes a schema none, as `path: message`.
pub fn flaws(schema: &Json, form: &Json) -> Vec<String> {
    let list = |(key, value): &(String, Json)| match key.as_str() {
        "type" => (key.clone(), Json::List(listed(value))),
        _ => (key.clone(), value.clone()),
    };
    let copied = Json::Object(schema.fields().iter().map(list).collect());
    let mut found = problems(&copied, form, "$", true);
    found.extend(name_flaws(&copied));
    if schema.get("$ref").text().map_or(false, |reference| !reference.starts_with('#')) {
        found.push("$.$ref: refers to something outside".to_string());
    }
    found.extend(parts(schema).into_iter().filter(|part| part.is_object()).flat_map(|part| flaws(part, form)));
    found
}

/// What is wrong with the lists of names in a schema.
fn name_flaws(schema: &Json) -> Vec<String> {
    let mut found = Vec::new();
    if matches!(schema.get("type"), Json::List(names) if names.is_empty()) {
        found.push("$.type: names no type".to_string());
    }
    for key in ["type", "required"] {
        let names = schema.get(key).items();
        if names.iter().map(Json::line).collect::<HashSet<_>>().len() < names.len() {
            found.push(format!("$.{key}: has a name twice"));
        }
    }
    found
}

/// The keywords of a schema that are not judged here.
pub fn not_judged(schema: &Json, form: &Json) -> Vec<String> {
    if !schema.is_object() {
        return vec!["boolean schema".to_string()];
    }
    let known = |key: &str| form.get("properties").get(key).is_object();
    let mut found: Vec<_> = schema.fields().iter().map(|(key, _)| key.clone()).filter(|key| !known(key)).collect();
    if !matches!(schema.get("items"), Json::Null | Json::Object(_)) {
        found.push("items".to_string());
    }
    found.extend(parts(schema).into_iter().flat_map(|part| not_judged(part, form)));
    found
}
