//! Tests of changes of the configuration file.

use std::fs;

use mcp_serve::FollowedFiles;

use super::*;

/// A temporary configuration file that is watched.
struct WatchedFile {
    path: PathBuf,
    source: ConfigSource,
}

impl WatchedFile {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("mcp-gateway-{name}-{}.toml", std::process::id()));
        fs::write(&path, one("a")).unwrap();
        let (config, source) =
            ConfigSource::open(Some(path.clone()), Vec::new(), Config::default(), None).unwrap();
        assert_eq!(config.backends.len(), 1);
        Self { path, source }
    }

    /// Waits for the next change; returns the keys of its backends, or the error.
    async fn next(&mut self) -> String {
        match self.source.changed(|_| None).await {
            Ok(config) => config.backends.keys().map(BackendKey::as_str).collect(),
            Err(error) => error
                .to_string()
                .replace(&*self.path.to_string_lossy(), "FILE"),
        }
    }
}

impl Drop for WatchedFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn one(key: &str) -> String {
    format!("[backends.{key}]\nurl = \"http://127.0.0.1:1/mcp\"\n")
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_file_are_reported_once() {
    let mut watched = WatchedFile::new("changes");
    let path = watched.path.clone();
    fs::write(&path, one("b")).unwrap();
    assert_eq!(watched.next().await, "b");
    // Replaced by a rename, as by editors and mounted secrets.
    let other = path.with_extension("new");
    fs::write(&other, one("c")).unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(watched.next().await, "c");
    fs::write(&path, "[backends.c]\nurl = 1\n").unwrap();
    let error = "FILE:2: backends.c.url: expected a string";
    assert_eq!(watched.next().await, error);
    let nothing = tokio::time::timeout(Duration::from_secs(10), watched.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    fs::remove_file(&path).unwrap();
    let error = "FILE: cannot be read: there is no such file";
    assert_eq!(watched.next().await, error);
    // The same content as before the error counts as a change.
    fs::write(&path, one("c")).unwrap();
    assert_eq!(watched.next().await, "c");
}

#[test]
fn half_written_file_does_not_count() {
    let found = |text: &str| Ok(text.to_owned());
    let mut files = FollowedFiles::new(found("whole"), || Ok(String::new()));
    for unfinished in ["", "b", "b c"] {
        assert_eq!(files.observe(found(unfinished)), None);
    }
    assert_eq!(files.observe(found("b c")), Some(found("b c")));
    assert_eq!(files.observe(found("b c")), None);
    // A half counts once it stays.
    for (text, is_reported) in [("b", false), ("b c", false), ("b", false), ("b", true)] {
        let reported = files.observe(found(text));
        assert_eq!(reported, is_reported.then(|| found(text)));
    }
    assert_eq!(files.observe(found("b")), None);
}
