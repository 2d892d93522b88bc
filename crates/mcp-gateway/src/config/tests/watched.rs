//! The file, while it changes.

use std::fs;

use super::*;

/// A file of its own, watched.
struct Watched {
    path: PathBuf,
    source: Source,
}

impl Watched {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("mcp-gateway-{name}-{}.toml", std::process::id()));
        fs::write(&path, one("a")).unwrap();
        let (config, source) =
            Source::open(Some(path.clone()), Vec::new(), Config::default(), false).unwrap();
        assert_eq!(config.backends.len(), 1);
        Self { path, source }
    }

    /// What the next change is: the keys of its backends, or what is wrong.
    async fn next(&mut self) -> String {
        match self.source.changed().await {
            Ok(config) => config.backends.keys().map(BackendKey::as_str).collect(),
            Err(error) => error
                .to_string()
                .replace(&*self.path.to_string_lossy(), "FILE"),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn one(key: &str) -> String {
    format!("[backends.{key}]\nurl = \"http://127.0.0.1:1/mcp\"\n")
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_file_are_told_once() {
    let mut watched = Watched::new("changes");
    let path = watched.path.clone();
    fs::write(&path, one("b")).unwrap();
    assert_eq!(watched.next().await, "b");
    // Replaced as a whole, as editors and mounted secrets do.
    let other = path.with_extension("new");
    fs::write(&other, one("c")).unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(watched.next().await, "c");
    fs::write(&path, "[backends.c]\nurl = 1\n").unwrap();
    assert_eq!(
        watched.next().await,
        "FILE:2: backends.c.url: expected a string"
    );
    let nothing = tokio::time::timeout(Duration::from_secs(10), watched.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    fs::remove_file(&path).unwrap();
    assert_eq!(
        watched.next().await,
        "FILE: cannot be read: entity not found"
    );
    // As it was before: told all the same, since what was told last is not true any more.
    fs::write(&path, one("c")).unwrap();
    assert_eq!(watched.next().await, "c");
}

#[test]
fn a_file_counts_when_it_was_written_to_its_end() {
    let mut watched = Watched::new("halves");
    let source = &mut watched.source;
    let whole = one("b") + &one("c");
    for half in ["", &one("b"), "[backends.b]\nurl = \"http"] {
        assert!(source.look(Ok(half.to_owned())).is_none());
    }
    assert!(source.look(Ok(whole.clone())).is_none());
    let told = source.look(Ok(whole.clone()));
    assert!(matches!(told, Some(Ok(config)) if config.backends.len() == 2));
    assert!(source.look(Ok(whole.clone())).is_none());
    // A half that nobody completes.
    let half = Ok("[backends.b]\nurl = \"http".to_owned());
    assert!(source.look(half.clone()).is_none());
    assert!(source.look(Ok(whole)).is_none());
    assert!(source.look(half.clone()).is_none());
    assert!(matches!(source.look(half.clone()), Some(Err(_))));
    assert!(source.look(half).is_none());
}
