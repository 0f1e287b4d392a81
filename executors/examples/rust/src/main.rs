//! An executor of the AO protocol 3.0: one JSON line in, JSON lines out. Put your agent into `answer`.

use serde_json::{json, Value};
use std::io::{self, Write};
use std::process::exit;

const NAME: &str = "rust";
const VERSION: &str = "0.1.0";

/// Returns the agent's answer to a prompt; an error becomes a failure.
/// stdout is for events only: use `eprintln!`, and `output()` for a program that is started.
fn answer(prompt: &str) -> Result<String, String> {
    Ok(prompt.to_owned())
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        None => perform(),
        Some("describe") => emit(json!({"schema_versions": ["3.0"], "executor": {"name": NAME, "version": VERSION}})),
        Some(argument) => {
            eprintln!("{argument} is not known; usage: ao-{NAME}-exec [describe]");
            exit(2);
        }
    }
}

fn perform() {
    let mut line = String::new();
    let read = io::stdin().read_line(&mut line);
    emit(json!({"event_type": "run_started"}));
    if let Err(error) = read {
        fail("invalid_json", &format!("stdin cannot be read: {error}"), 64);
    }
    let invocation: Value = serde_json::from_str(&line)
        .unwrap_or_else(|error| fail("invalid_json", &format!("the line is not JSON: {error}"), 64));
    let version = invocation["schema_version"].as_str().unwrap_or("none");
    if !version.starts_with("3.") {
        fail("unsupported_schema_version", &format!("{version} is not supported, only 3.x is"), 64);
    }
    let prompt = invocation["prompt"]
        .as_str()
        .unwrap_or_else(|| fail("invalid_invocation", "the invocation has no prompt", 64));
    match answer(prompt) {
        Ok(text) => emit(json!({"event_type": "result", "result_text": text})),
        Err(message) => fail("internal_error", &message, 1),
    }
}

/// Writes one line at once.
fn emit(document: Value) {
    let mut stdout = io::stdout();
    let written = writeln!(stdout, "{document}").and_then(|()| stdout.flush());
    if let Err(error) = written {
        eprintln!("stdout cannot be written: {error}");
        exit(1);
    }
}

fn fail(kind: &str, message: &str, code: i32) -> ! {
    emit(json!({"event_type": "failure", "error": {"type": kind, "message": message}}));
    exit(code)
}
