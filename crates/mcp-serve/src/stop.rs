//! The signals that stop a server.

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

/// Returns a token that the first signal to stop cancels; a second one exits at once. Signals are
/// SIGTERM, SIGINT and SIGHUP; on Windows Ctrl-C, Ctrl-Break, a closed console, the end of the user's
/// session and a shutdown, which are also what service wrappers send to console programs.
pub(crate) fn on_signals() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    // A macro, because each signal of Windows has a type of its own.
    macro_rules! stop_on {
        ($($signal:expr),*) => {$({
            let mut signal = $signal.context("cannot listen for signals")?;
            let stop = stop.clone();
            tokio::spawn(async move {
                while signal.recv().await.is_some() {
                    cancel(&stop);
                }
            });
        })*};
    }
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        stop_on!(
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
            signal(SignalKind::hangup())
        );
    }
    #[cfg(windows)]
    {
        use tokio::signal::windows;
        stop_on!(
            windows::ctrl_c(),
            windows::ctrl_break(),
            windows::ctrl_close(),
            windows::ctrl_logoff(),
            windows::ctrl_shutdown()
        );
    }
    Ok(stop)
}

fn cancel(stop: &CancellationToken) {
    if stop.is_cancelled() {
        std::process::exit(1);
    }
    tracing::info!("stopping");
    stop.cancel();
}
