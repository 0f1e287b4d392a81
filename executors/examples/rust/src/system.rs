//! What the process has of the system: SIGTERM, and the descriptor that events go to.

use std::fs::File;
use std::io::Write;
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

static SIGTERM: AtomicBool = AtomicBool::new(false);
static EVENTS: OnceLock<i32> = OnceLock::new();

// The C library is there anyway, so four of its functions stand in for a crate.
extern "C" {
    fn dup(descriptor: i32) -> i32;
    fn dup2(from: i32, to: i32) -> i32;
    fn fcntl(descriptor: i32, command: i32, value: i32) -> i32;
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
}

extern "C" fn note_sigterm(_number: i32) {
    SIGTERM.store(true, Ordering::SeqCst);
}

/// Before this, SIGTERM ends the process; from here on it ends the run.
pub fn heed_sigterm() {
    unsafe { signal(15, note_sigterm) };
}

pub fn sigterm_came() -> bool {
    SIGTERM.load(Ordering::SeqCst)
}

/// Descriptor 1 is moved away before anything is written, and is stderr from then on: whatever prints, prints there.
fn events() -> File {
    let descriptor = *EVENTS.get_or_init(|| unsafe {
        let moved = dup(1);
        fcntl(moved, 2, 1); // F_SETFD, FD_CLOEXEC: no program that is started inherits it
        dup2(2, 1);
        moved
    });
    unsafe { File::from_raw_fd(dup(descriptor)) }
}

pub fn write_line(line: &str) {
    let _ = events().write_all(format!("{line}\n").as_bytes());
}
