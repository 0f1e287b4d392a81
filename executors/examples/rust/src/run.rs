//! The events of one run, and the end of the process with the code that agrees.

use crate::judge::{error, object, text};
use crate::json::Json;
use crate::system::write_line;
use std::fs::File;
use std::time::{SystemTime, UNIX_EPOCH};

fn executor() -> Json {
    object([("name", text("rust")), ("version", text("0.1.0"))])
}

pub fn description() -> String {
    let capabilities = object([("cancel", Json::Bool(true))]);
    let versions = Json::List(vec![text("3.0")]);
    object([("schema_versions", versions), ("executor", executor()), ("capabilities", capabilities)]).line()
}

pub struct Run {
    session_id: Json,
    run_id: Json,
    seq: usize,
    max_bytes: usize,
    stdout: File,
}

impl Run {
    pub fn new(asked: Option<&Json>, stdout: File) -> Self {
        let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let named = |field: &str, prefix: &str| match asked.map(|asked| asked.get(field).text()) {
            None => Json::Null,
            Some(Some(given)) if !given.is_empty() => text(given),
            Some(_) => text(format!("{prefix}{moment:x}{:05}", std::process::id())),
        };
        let most = asked.and_then(|asked| asked.get("limits").get("max_event_bytes").number());
        let max_bytes = most.filter(|most| *most >= 4096.0).map_or(1_048_576, |most| most as usize);
        let (session_id, run_id) = (named("session_id", "ses_"), named("run_id", "run_"));
        Run { session_id, run_id, seq: 0, max_bytes, stdout }
    }

    pub fn start(&mut self) {
        self.emit("run_started", vec![("schema_version", text("3.0")), ("executor", executor())]);
    }
    pub fn succeed(&mut self, answer: &str) -> ! {
        let reason = ("stop_reason", text("end_turn"));
        self.emit("result", vec![("result_text", text(answer)), ("result_data", Json::Null), reason]);
        std::process::exit(0)
    }
    pub fn cancel(&mut self) -> ! {
        self.fail("cancelled", error("cancelled", "the run was cancelled", "caller", vec![]), 130)
    }
    pub fn refuse(&mut self, problem: Json) -> ! {
        let code = if problem.get("type").text() == Some("workspace_error") { 1 } else { 64 };
        self.fail("failed", problem, code)
    }
    fn fail(&mut self, status: &str, problem: Json, code: i32) -> ! {
        self.emit("failure", vec![("status", text(status)), ("error", problem)]);
        std::process::exit(code)
    }

    fn emit(&mut self, event_type: &str, fields: Vec<(&str, Json)>) {
        self.seq += 1;
        let (session_id, run_id) = (self.session_id.clone(), self.run_id.clone());
        let mut event = vec![("event_type", text(event_type)), ("session_id", session_id), ("run_id", run_id)];
        event.extend([("seq", Json::Number(self.seq.to_string())), ("timestamp", text(timestamp()))]);
        event.extend(fields);
        let line = self.fit(event.into_iter().map(|(key, value)| (key.to_string(), value)).collect());
        write_line(&mut self.stdout, &line);
    }

    /// An event as a line that is short enough: a text is cut, a failure goes without its details.
    fn fit(&self, mut event: Vec<(String, Json)>) -> String {
        let whole = Json::Object(event.clone()).line();
        if whole.len() < self.max_bytes {
            return whole;
        }
        for (_, value) in event.iter_mut().filter(|(key, _)| key == "error") {
            let of = |key| value.get(key).text().unwrap_or("");
            let message: String = of("message").chars().take(200).collect();
            *value = error(of("type"), &message, of("origin"), vec![]);
        }
        let place = match event.iter().position(|(key, _)| key == "result_text") {
            Some(place) => place,
            None => return Json::Object(event).line(),
        };
        let answer = event[place].1.text().unwrap_or("").to_string();
        event.push(("truncated".to_string(), Json::Bool(true)));
        event.push(("original_bytes".to_string(), Json::Number(answer.len().to_string())));
        event[place].1 = text("");
        let room = (self.max_bytes - 1).saturating_sub(Json::Object(event.clone()).line().len());
        event[place].1 = text(beginning(&answer, room));
        Json::Object(event).line()
    }
}

/// As many characters as have room in JSON, quotes not counted.
fn beginning(answer: &str, room: usize) -> String {
    let mut used = 0;
    let fits = |letter: &char| {
        used += text(letter.to_string()).line().len() - 2;
        used <= room
    };
    answer.chars().take_while(fits).collect()
}

/// The time as RFC 3339, from days since 1970 (the algorithm of Howard Hinnant's civil_from_days).
fn timestamp() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, rest) = (seconds / 86400 + 719_468, seconds % 86400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) = (day_of_year - (153 * shifted + 2) / 5 + 1, (shifted + 2) % 12 + 1);
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}
