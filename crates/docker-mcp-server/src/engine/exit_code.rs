//! Meanings of exit codes.

use std::borrow::Cow;

/// The meaning of the exit code of a container's last run.
pub(crate) fn meaning(code: i64, oom_killed: bool) -> Cow<'static, str> {
    if oom_killed {
        return "killed because it used more memory than its limit".into();
    }
    match code {
        0 => "success".into(),
        125 => "the engine could not run it".into(),
        126 => "the command is not executable".into(),
        127 => "the command was not found".into(),
        128 => "the engine could not start it".into(),
        130 => "SIGINT: interrupted".into(),
        134 => "SIGABRT: the program gave up".into(),
        137 => "SIGKILL: killed from outside, or it did not stop in time".into(),
        139 => "SIGSEGV: the program crashed".into(),
        143 => "SIGTERM: asked to stop".into(),
        129..=192 => format!("signal {}", code - 128).into(),
        _ => "the application's own error".into(),
    }
}
