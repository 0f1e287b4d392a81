//! One line to one value under the rules of I-JSON (SPEC 3), and back to JSON.

#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    /// As it was written, so that 1.50 stays 1.50.
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A field of an object; Null where there is none.
    pub fn get(&self, key: &str) -> &Json {
        self.fields().iter().find(|(name, _)| name == key).map_or(&Json::Null, |(_, value)| value)
    }
    pub fn fields(&self) -> &[(String, Json)] {
        if let Json::Object(fields) = self { fields } else { &[] }
    }
    pub fn items(&self) -> &[Json] {
        if let Json::List(items) = self { items } else { &[] }
    }
    pub fn text(&self) -> Option<&str> {
        if let Json::Text(text) = self { Some(text) } else { None }
    }
    pub fn number(&self) -> Option<f64> {
        if let Json::Number(digits) = self { digits.parse().ok() } else { None }
    }
    pub fn is_object(&self) -> bool {
        matches!(self, Json::Object(_))
    }

    /// Appends compact JSON, with the keys in the order in which they stood.
    pub fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(digits) => out.push_str(digits),
            Json::Text(text) => write_text(text, out),
            Json::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    out.push(if index == 0 { '[' } else { ',' });
                    item.write(out);
                }
                out.push_str(if items.is_empty() { "[]" } else { "]" });
            }
            Json::Object(fields) => {
                for (index, (key, value)) in fields.iter().enumerate() {
                    out.push(if index == 0 { '{' } else { ',' });
                    write_text(key, out);
                    out.push(':');
                    value.write(out);
                }
                out.push_str(if fields.is_empty() { "{}" } else { "}" });
            }
        }
    }
    pub fn line(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", character as u32)),
            _ => out.push(character),
        }
    }
    out.push('"');
}
