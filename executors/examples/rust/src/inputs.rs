//! What the agent receives: the prompt, or the <inputs> block (SPEC 8.2).

use crate::json::Json;

const LINE_ENDS: &str = "\n\r\u{b}\u{c}\u{1c}\u{1d}\u{1e}\u{85}\u{2028}\u{2029}";

pub fn agent_text(asked: &Json) -> String {
    let parameters = asked.get("parameters");
    if !asked.get("agent_blueprint").get("parameters_schema").is_object() {
        return parameters.get("prompt").text().unwrap_or("").to_string();
    }
    let field = |(key, value): &(String, Json)| format!("{}: {}\n", name(key), shown(value));
    let body: String = parameters.fields().iter().map(field).collect();
    format!("<inputs>\n{}</inputs>", without_tags(&body))
}

fn name(key: &str) -> String {
    let begins_well = key.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    let is_plain = begins_well && key.chars().all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter));
    if is_plain { key.to_string() } else { escaped(&Json::Text(key.to_string())) }
}

fn shown(value: &Json) -> String {
    match value.text() {
        None | Some("") => escaped(value),
        Some(text) if !text.contains(|letter| LINE_ENDS.contains(letter)) => text.to_string(),
        Some(text) => {
            let text = text.replace("\r\n", "\n");
            let lines: Vec<_> = text.split(|letter| LINE_ENDS.contains(letter)).collect();
            format!("|\n  {}", lines.join("\n  "))
        }
    }
}

fn escaped(value: &Json) -> String {
    value.line().replace('\u{85}', "\\u0085").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Writes each `<` that begins a tag of the block as `&lt;`.
fn without_tags(body: &str) -> String {
    let mut pieces = body.split('<');
    let mut out = pieces.next().unwrap_or("").to_string();
    for piece in pieces {
        out.push_str(if begins_tag(piece) { "&lt;" } else { "<" });
        out.push_str(piece);
    }
    out
}

fn begins_tag(piece: &str) -> bool {
    let is_space = |letter: char| letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter);
    let piece = piece.trim_start_matches(is_space);
    let piece = piece.strip_prefix('/').unwrap_or(piece).trim_start_matches(is_space);
    let is_tag = piece.get(..6).map_or(false, |word| word.eq_ignore_ascii_case("inputs"));
    is_tag && !piece[6..].starts_with(|letter: char| letter.is_alphanumeric() || letter == '_')
}
