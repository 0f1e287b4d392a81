//! Reads JSON as strictly as I-JSON wants it (SPEC 3): no key twice, no large integer, no more than 64 levels.

use crate::json::Json;
use std::collections::HashSet;

type Read<T> = Result<T, &'static str>;

/// The object on a line of bytes.
pub fn parse_line(line: &[u8]) -> Read<Json> {
    let text = std::str::from_utf8(line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)).map_err(|_| "not UTF-8")?;
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(1)?;
    match reader.next() {
        Some(_) => Err("more than one value"),
        None if value.is_object() => Ok(value),
        None => Err("no object"),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }
    fn take(&mut self, word: &str) -> Read<()> {
        self.next();
        if !self.text[self.at..].starts_with(word) {
            return Err("not JSON");
        }
        self.at += word.len();
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Read<Json> {
        match self.next() {
            Some(b'{' | b'[') if depth > 64 => Err("more than 64 levels"),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.take("\"").and_then(|()| self.string()).map(Json::Text),
            Some(b't') => self.take("true").map(|()| Json::Bool(true)),
            Some(b'f') => self.take("false").map(|()| Json::Bool(false)),
            Some(b'n') => self.take("null").map(|()| Json::Null),
            _ => self.number(),
        }
    }
    fn object(&mut self, depth: usize) -> Read<Json> {
        let (mut fields, mut known) = (Vec::new(), HashSet::new());
        self.take("{")?;
        while self.next() != Some(b'}') {
            if !fields.is_empty() {
                self.take(",")?;
            }
            self.take("\"")?;
            let key = self.string()?;
            if !known.insert(key.clone()) {
                return Err("a key twice");
            }
            self.take(":")?;
            fields.push((key, self.value(depth + 1)?));
        }
        self.take("}").map(|()| Json::Object(fields))
    }
    fn list(&mut self, depth: usize) -> Read<Json> {
        let mut items = Vec::new();
        self.take("[")?;
        while self.next() != Some(b']') {
            if !items.is_empty() {
                self.take(",")?;
            }
            items.push(self.value(depth + 1)?);
        }
        self.take("]").map(|()| Json::List(items))
    }

    /// What stands behind an opening quote, up to the closing one.
    fn string(&mut self) -> Read<String> {
        let mut string = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.bytes().position(|byte| byte < 32 || byte == b'"' || byte == b'\\').ok_or("not JSON")?;
            string.push_str(&rest[..plain]);
            self.at += plain + 1;
            match rest.as_bytes()[plain] {
                b'"' => return Ok(string),
                b'\\' => string.push(self.escape()?),
                _ => return Err("a control character"),
            }
        }
    }
    fn escape(&mut self) -> Read<char> {
        let mark = *self.text.as_bytes().get(self.at).ok_or("not JSON")?;
        self.at += 1;
        Ok(match mark {
            b'"' | b'\\' | b'/' => mark as char,
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code().map(|unit| self.character(unit)),
            _ => return Err("a bad escape"),
        })
    }
    fn code(&mut self) -> Read<u32> {
        let digits = self.text.get(self.at..self.at + 4).filter(|code| !code.contains('+')).unwrap_or("");
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| "a bad escape")
    }
    /// A character from one unit of UTF-16 or two; U+FFFD for half a pair.
    fn character(&mut self, unit: u32) -> char {
        let before = self.at;
        if (0xD800..0xDC00).contains(&unit) && self.text[self.at..].starts_with("\\u") {
            self.at += 2;
            match self.code() {
                Ok(low) if (0xDC00..0xE000).contains(&low) => {
                    return char::from_u32(0x10000 + ((unit - 0xD800) << 10) + low - 0xDC00).unwrap_or('\u{FFFD}')
                }
                _ => self.at = before,
            }
        }
        char::from_u32(unit).unwrap_or('\u{FFFD}')
    }

    fn number(&mut self) -> Read<Json> {
        let rest = &self.text[self.at..];
        let end = rest.bytes().position(|byte| !b"+-.eE0123456789".contains(&byte)).unwrap_or(rest.len());
        let (digits, whole) = (&rest[..end], rest[..end].trim_start_matches('-'));
        let number: f64 = digits.parse().map_err(|_| "not JSON")?; // takes +1, 01, 1. and 1.e5, which JSON does not
        let integer = whole.bytes().take_while(u8::is_ascii_digit).count();
        let point_last = digits.ends_with('.') || digits.contains(".e") || digits.contains(".E");
        if digits.starts_with('+') || integer == 0 || (integer > 1 && whole.starts_with('0')) || point_last {
            return Err("not JSON");
        }
        let is_whole = integer == whole.len();
        if number.is_infinite() || (is_whole && number.abs() > 9007199254740991.0) {
            return Err("a number out of range");
        }
        self.at += end;
        Ok(Json::Number(digits.to_string()))
    }
}
