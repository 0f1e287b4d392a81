//! Whether an invocation can be performed (SPEC 2, 4 and 8), and what the agent receives.

use crate::json::Json;
use crate::keywords::{flaws, not_judged};
use crate::schema::{at, problems, rules};

pub fn text(text: impl Into<String>) -> Json {
    Json::Text(text.into())
}

pub fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    Json::Object(fields.map(|(key, value)| (key.to_string(), value)).to_vec())
}

fn texts(items: &[String]) -> Json {
    Json::List(items.iter().map(|item| text(item.as_str())).collect())
}

pub fn error(kind: &str, message: &str, origin: &str, more: Vec<(String, Json)>) -> Json {
    let fields = [("type", text(kind)), ("message", text(message)), ("retryable", Json::Bool(false))];
    let others = [("side_effects", text("none")), ("origin", text(origin))];
    let fields = fields.into_iter().chain(others).map(|(key, value)| (key.to_string(), value));
    Json::Object(fields.chain(more).collect())
}

fn refused(kind: &str, message: &str, details: Json) -> Option<Json> {
    Some(error(kind, message, "caller", vec![("details".to_string(), details)]))
}

fn invalid(found: &[String]) -> Option<Json> {
    refused("invalid_invocation", &found.join("; "), object([("problems", texts(found))]))
}

fn lacking(missing: &[String]) -> Option<Json> {
    let message = format!("not served here: {}", missing.join(", "));
    refused("unsupported_capability", &message, object([("missing", texts(missing))]))
}

fn is_version(version: &str) -> bool {
    let is_number = |part: &str| {
        !part.is_empty() && part.len() < 7 && part.bytes().all(|byte| byte.is_ascii_digit())
            && (part == "0" || !part.starts_with('0'))
    };
    version.split_once('.').map_or(false, |(major, minor)| is_number(major) && is_number(minor))
}

/// The error that an invocation ends with before any work, if there is something against it.
pub fn refusal(asked: &Json) -> Option<Json> {
    let version = asked.get("schema_version").text().unwrap_or("");
    if !is_version(version) {
        return invalid(&["$.schema_version: expected a version such as 3.0".to_string()]);
    }
    if !version.starts_with("3.") {
        let details = object([("requested", text(version)), ("supported", Json::List(vec![text("3.0")]))]);
        return refused("unsupported_schema_version", &format!("{version} is not spoken here, only 3.0 is"), details);
    }
    let found = invocation_problems(asked);
    let required: Vec<_> = asked.get("requires").items().iter().filter_map(Json::text).map(String::from).collect();
    let blueprint = asked.get("agent_blueprint");
    if !found.is_empty() {
        invalid(&found)
    } else if !required.is_empty() {
        lacking(&required)
    } else if asked.get("mode").text() == Some("resume") {
        lacking(&["resume".to_string()])
    } else if blueprint.get("type").text() == Some("procedural") {
        lacking(&["agent_type:procedural".to_string()])
    } else {
        let (rules, given) = (rules(), blueprint.get("parameters_schema"));
        let schema = if given.is_object() { given } else { rules.get("prompt") };
        schema_refusal(asked.get("parameters"), schema, rules.get("schema")).or_else(|| place_refusal(asked))
    }
}

fn schema_refusal(parameters: &Json, schema: &Json, form: &Json) -> Option<Json> {
    let (flaws, unknown) = (flaws(schema, form), not_judged(schema, form));
    if !flaws.is_empty() {
        return invalid(&[format!("$.agent_blueprint.parameters_schema: in it, {}", flaws.join("; "))]);
    }
    if !unknown.is_empty() {
        return lacking(&unknown.iter().map(|keyword| format!("parameters_schema:{keyword}")).collect::<Vec<_>>());
    }
    let errors = problems(parameters, schema, "$", false);
    let details = object([("validation_errors", texts(&errors)), ("schema", schema.clone())]);
    let more = vec![("validation_errors".to_string(), texts(&errors)), ("details".to_string(), details)];
    (!errors.is_empty()).then(|| error("parameters_validation_failed", &errors.join("; "), "caller", more))
}

fn place_refusal(asked: &Json) -> Option<Json> {
    let dir = asked.get("project_dir").text().unwrap_or("/");
    let message = format!("{dir} is no directory");
    (!std::path::Path::new(dir).is_dir()).then(|| error("workspace_error", &message, "environment", vec![]))
}

fn invocation_problems(asked: &Json) -> Vec<String> {
    let rules = rules();
    let mut found = problems(asked, rules.get("invocation"), "$", true);
    let blueprint = asked.get("agent_blueprint");
    for (key, server) in blueprint.get("mcp_servers").fields() {
        let path = format!("$.agent_blueprint.mcp_servers{}", at(key));
        let is_program = matches!(server.get("type"), Json::Null) || server.get("type").text() == Some("stdio");
        found.extend(problems(server, rules.get(if is_program { "program" } else { "remote" }), &path, true));
        if server.get("url").text().map_or(false, |url| !url.starts_with("http://") && !url.starts_with("https://")) {
            found.push(format!("{path}.url: expected http:// or https://"));
        }
    }
    if blueprint.get("output_schema").is_object() && blueprint.get("output_format").is_object() {
        found.push("$.agent_blueprint: output_schema and output_format contradict each other".to_string());
    }
    if asked.get("project_dir").text().map_or(false, |dir| !dir.starts_with('/')) {
        found.push("$.project_dir: expected an absolute path".to_string());
    }
    if asked.get("mode").text() == Some("resume") && *asked.get("executor_session_id") == Json::Null {
        found.push("$: executor_session_id is missing".to_string());
    }
    found
}
