//! An executor of the AO protocol 3.0 in Rust, without crates: it answers with what it was asked.
//! reader.rs and json.rs read and write lines, judge.rs says with schema.rs whether an invocation can be performed,
//! inputs.rs what the agent receives; this file is the run.

mod inputs;
mod json;
mod judge;
mod keywords;
mod reader;
mod run;
mod schema;
mod system;

use json::Json;
use std::io::{BufRead, BufReader, Stdin};
use std::os::unix::io::AsFd;
use std::sync::mpsc::{channel, Sender};
use std::time::Duration;
use std::{env, fs, process, thread};

/// What ends a run: its answer, or a cancel.
enum End {
    Answer(String),
    Cancel,
}

fn main() {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    if arguments == ["describe"] {
        system::write_line(&mut system::take_stdout(), &run::description());
    } else if !arguments.is_empty() || system::stdin_is_terminal() {
        eprintln!("usage: ao-rust-exec < invocation.json    or: ao-rust-exec describe");
        process::exit(2);
    } else {
        let mut lines = BufReader::with_capacity(1 << 16, std::io::stdin());
        let asked = reader::parse_line(&first_line(&mut lines)).map(without_nulls);
        serve(asked.ok(), lines);
    }
}

/// The first line that is not blank; the end of stdin ends it too.
fn first_line(lines: &mut BufReader<Stdin>) -> Vec<u8> {
    loop {
        let mut line = Vec::new();
        let read = lines.read_until(b'\n', &mut line).unwrap_or(0);
        if read == 0 || !line.iter().all(u8::is_ascii_whitespace) {
            return line;
        }
    }
}

/// Null on the first level means absent.
fn without_nulls(asked: Json) -> Json {
    Json::Object(asked.fields().iter().filter(|(_, value)| *value != Json::Null).cloned().collect())
}

fn serve(asked: Option<Json>, lines: BufReader<Stdin>) -> ! {
    let mut run = run::Run::new(asked.as_ref(), system::take_stdout());
    let message = "stdin has no line that is an object of I-JSON";
    let no_line = || Some(judge::error("invalid_json", message, "caller", vec![]));
    let problem = asked.as_ref().map_or_else(no_line, judge::refusal);
    system::heed_sigterm();
    run.start();
    let asked = match (asked, problem) {
        (Some(asked), None) => asked,
        (_, problem) => run.refuse(problem.unwrap_or(Json::Null)),
    };
    let (sender, ends) = channel();
    if asked.get("control").get("stdin").text() == Some("open") {
        let sender = sender.clone();
        thread::spawn(move || listen(lines, &sender));
    }
    thread::spawn(move || sender.send(End::Answer(perform(inputs::agent_text(&asked)))));
    loop {
        match ends.recv_timeout(Duration::from_millis(20)) {
            Ok(End::Answer(text)) => run.succeed(&text),
            Ok(End::Cancel) => run.cancel(),
            Err(_) if system::sigterm_came() => run.cancel(),
            Err(_) => {}
        }
    }
}

/// The work. A real executor would ask its model or start its program; these are hooks of the conformance suite.
fn perform(text: String) -> String {
    if env::var_os("AO_CONFORM_NOISE").is_some() {
        println!("noise of a library");
        let _ = process::Command::new("echo").arg("noise of a program").status();
    }
    let seconds = env::var("AO_CONFORM_LINGER_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    thread::sleep(Duration::from_secs_f64(seconds.unwrap_or(0.0)));
    text
}

/// Hears control lines: a cancel ends the run, and so does the end of stdin where it is no file.
fn listen(mut lines: BufReader<Stdin>, sender: &Sender<End>) {
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).unwrap_or(0) > 0 {
        let control = reader::parse_line(&line).unwrap_or(Json::Null);
        let has_reason = matches!(control.get("reason"), Json::Null | Json::Text(_));
        if control.get("type").text() == Some("cancel") && has_reason {
            let _ = sender.send(End::Cancel);
            return;
        }
        line.clear();
    }
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().map(fs::File::from);
    if !stdin.and_then(|file| file.metadata()).map_or(false, |found| found.is_file()) {
        let _ = sender.send(End::Cancel);
    }
}
