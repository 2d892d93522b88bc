//! Tests of changes of the configuration file.

use mcp_serve::FollowedFiles;

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
    // A file that stays unreadable is told once.
    let gone = || Err("gone".to_owned());
    assert_eq!(files.observe(gone()), None);
    assert_eq!(files.observe(gone()), Some(gone()));
    assert_eq!(files.observe(gone()), None);
}
