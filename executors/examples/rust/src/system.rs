//! What the process has of the system: SIGTERM, stdin and the descriptor that events go to.

use std::fs::File;
use std::io::Write;
use std::os::unix::io::FromRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

static SIGTERM: AtomicBool = AtomicBool::new(false);

// The C library is there anyway, so five of its functions stand in for a crate.
extern "C" {
    fn dup(descriptor: i32) -> i32;
    fn dup2(from: i32, to: i32) -> i32;
    fn fcntl(descriptor: i32, command: i32, value: i32) -> i32;
    fn isatty(descriptor: i32) -> i32;
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

pub fn stdin_is_terminal() -> bool {
    unsafe { isatty(0) == 1 }
}

/// Moves descriptor 1 away, once and before anything is written; from then on it is stderr, for whatever else prints.
pub fn take_stdout() -> File {
    unsafe {
        let moved = dup(1);
        fcntl(moved, 2, 1); // F_SETFD, FD_CLOEXEC: no program that is started inherits it
        dup2(2, 1);
        File::from_raw_fd(moved)
    }
}

pub fn write_line(stdout: &mut File, line: &str) {
    let _ = stdout.write_all(format!("{line}\n").as_bytes());
}
