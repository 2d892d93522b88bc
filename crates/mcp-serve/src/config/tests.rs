//! Tests of the configuration file.

use std::io::Write as _;

use clap::{CommandFactory as _, FromArgMatches as _};
use tempfile::NamedTempFile;

use super::*;
use crate::Command;

/// Options of a server, one of each type.
#[derive(clap::Args, Debug)]
#[group(id = "own")]
struct Own {
    /// A text.
    #[arg(long, env = "CONFIG_TEST_URL", default_value = "http://default")]
    own_url: String,
    /// A secret.
    #[arg(long, env = "CONFIG_TEST_KEY", hide_env_values = true)]
    own_key: Option<String>,
    /// A file with it.
    #[arg(long, env = "CONFIG_TEST_KEY_FILE", value_name = "FILE")]
    own_key_file: Option<PathBuf>,
    /// Secrets.
    #[arg(long, env = "CONFIG_TEST_KEYS", value_delimiter = ',')]
    #[arg(hide_env_values = true)]
    own_keys: Vec<String>,
    /// Files.
    #[arg(
        long,
        env = "CONFIG_TEST_FILES",
        value_delimiter = ',',
        value_name = "NAME=FILE"
    )]
    own_files: Vec<String>,
    /// A number.
    #[arg(long, env = "CONFIG_TEST_COST")]
    own_cost: Option<f64>,
}

struct File(NamedTempFile);

impl File {
    fn new(text: &str) -> Self {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Self(file)
    }

    /// The options with this file and these arguments, and the problems without the name of the file.
    fn options(&self, args: &[&str]) -> (Option<Command<Own>>, Vec<String>) {
        let mut all: Vec<OsString> = vec!["x".into(), "--config".into(), self.0.path().into()];
        all.extend(args.iter().map(OsString::from));
        let Applied {
            command, problems, ..
        } = apply(with_option(Command::<Own>::command()), &all);
        let path = self.0.path().display().to_string();
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let problems = problems.iter().map(|text| text.replace(&path, "F"));
        let options = command.try_get_matches_from(all).ok();
        let options = options.map(|matches| Command::from_arg_matches(&matches).unwrap());
        (options, problems.collect())
    }

    fn usable(&self, args: &[&str]) -> Command<Own> {
        let (options, problems) = self.options(args);
        assert_eq!(problems, Vec::<String>::new());
        options.unwrap()
    }
}

#[test]
fn values_have_the_types_of_their_options() {
    let file = File::new(
        "port = 0x10\nbind = \"::1\"\nstdio = true\nown_cost = 1.5\nerror_profile = \"extended\"\n\
         toolsets = [\"a\", \"b\"]\nallowed_hosts = \"c,d\"\nown_files = [\"n=keys/n\"]\ntls_cert = \"cert.pem\"\n",
    );
    let Command { product, common } = file.usable(&[]);
    assert_eq!(common.port, Some(16));
    assert_eq!(common.bind.to_string(), "::1");
    assert!(common.stdio);
    assert_eq!(product.own_cost, Some(1.5));
    assert_eq!(common.toolsets, ["a", "b"]);
    assert_eq!(common.allowed_hosts, ["c", "d"]);
    // Paths are those in the folder of the file.
    let folder = std::env::temp_dir();
    let expected = format!("n={}", folder.join("keys/n").display());
    assert_eq!(product.own_files, [expected]);
    assert_eq!(common.tls_cert.as_deref(), Some(&*folder.join("cert.pem")));
    assert_eq!(product.own_url, "http://default");
    let detail = File::new("auth_groups_claim = \"roles\"\n");
    detail.usable(&[]);
    let (_, problems) = detail.options(&["--auth-groups-claim", "teams"]);
    let only = "is set in the configuration file only, by the key auth_groups_claim";
    assert_eq!(problems, [format!("--auth-groups-claim: {only}")]);
    // Flags override the file.
    let common = file.usable(&["--port", "7", "--toolsets", "c"]).common;
    assert_eq!(
        (common.port, common.toolsets),
        (Some(7), vec!["c".to_owned()])
    );
}

#[test]
fn secret_is_a_file_a_variable_or_a_text_that_no_other_user_can_read() {
    let key = File::new("hunter2\n");
    let name = key.0.path().file_name().unwrap().to_str().unwrap();
    let file = File::new(&format!(
        "own_key = \"file:{name}\"\nsession_key = \"file:{name}\"\nown_keys = [\"a=file:{name}\", \"b=plain\"]\n"
    ));
    let Command { product, common } = file.usable(&[]);
    // A server follows the file.
    assert_eq!(
        (product.own_key, product.own_key_file),
        (None, Some(key.0.path().to_owned()))
    );
    assert_eq!(common.session_key.as_deref(), Some("hunter2"));
    assert_eq!(product.own_keys, ["a=hunter2", "b=plain"]);
    // The other form of the secret overrides it as well.
    let product = file.usable(&["--own-key", "given"]).product;
    assert_eq!(
        (product.own_key.as_deref(), product.own_key_file),
        (Some("given"), None)
    );
    let file = File::new("own_key = \"${CARGO_PKG_NAME}\"\nown_url = \"${CONFIG_TEST_NONE:-x}\"\n");
    let product = file.usable(&["--own-url", "u"]).product;
    assert_eq!(product.own_key.as_deref(), Some("mcp-serve"));
    assert_eq!(file.usable(&[]).product.own_url, "x");
}

#[cfg(unix)]
#[test]
fn secret_in_plain_text_in_a_file_of_all_users_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let file = File::new("own_key = \"hunter2\"\nown_keys = \"a=hunter2\"\nport = 1\n");
    file.usable(&[]);
    let mode = |mode| std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(mode));
    mode(0o644).unwrap();
    let (_, problems) = file.options(&[]);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(
        problems[0].starts_with("F:1: own_key: is a secret in plain text"),
        "{problems:?}"
    );
    assert!(!problems.concat().contains("hunter2"));
    // The group may be that of the server.
    mode(0o640).unwrap();
    file.usable(&[]);
}

#[test]
fn every_problem_is_told_with_its_line_key_and_nearest_name() {
    for (text, expected) in [
        (
            "prot = 1\nbody-limit = 2\nN8 = 1\nMCP_PORT = 1\n[tls]\ncert = 1\n",
            vec![
                "F:4: MCP_PORT: unknown key; did you mean \"port\"?",
                "F:2: body-limit: unknown key; did you mean \"body_limit\"?",
                "F:1: prot: unknown key; did you mean \"port\"?",
            ],
        ),
        (
            "port = \"1\"\nstdio = \"yes\"\nbind = \"all\"\ncall_timeout = 0\nrate_limit = -1\nlog = 1\n\
           toolsets = []\nallowed_hosts = [\"a,b\"]\nerror_profile = \"x\"\nown_cost = \"1\"\nown_key = \"${CONFIG_TEST_NONE}\"\n\
           own_url = \"${\"\nown_keys = [1]\nbody_limit = 1.5\nsession_key = \"file:nowhere\"\n",
            vec![
                "F:8: allowed_hosts: a text of the list must not contain ','",
                "F:3: bind: it must be the IP address of this machine, such as 0.0.0.0 for all, or localhost",
                "F:14: body_limit: must be a whole number",
                "F:4: call_timeout: 0 is not in 1..=600",
                "F:9: error_profile: must be one of spec, codefluss, extended",
                "F:6: log: must be a text in quotes",
                "F:10: own_cost: must be a number",
                "F:11: own_key: the environment variable CONFIG_TEST_NONE is not set",
                "F:13: own_keys: must be a list of texts in quotes",
                "F:12: own_url: `${` without `}`",
                "F:1: port: must be a whole number",
                "F:5: rate_limit: -1 is not in 1..",
                "F:15: session_key: the file nowhere cannot be read: entity not found",
                "F:2: stdio: must be true or false",
                "F:7: toolsets: must not be empty; leave it out for its default",
            ],
        ),
        ("port = \nbind = 'x\n", vec!["F:1: ", "F:2: "]),
    ] {
        let (_, mut problems) = File::new(text).options(&[]);
        problems.sort_by_key(|text| text.split(": ").nth(1).map(str::to_owned));
        for expected in &expected {
            let found = problems.iter().any(|problem| problem.starts_with(expected));
            assert!(found, "{expected:?} is not in {problems:#?}");
        }
        assert!(problems.len() >= expected.len(), "{problems:#?}");
    }
    let missing = File::new("");
    std::fs::remove_file(missing.0.path()).unwrap();
    let (_, problems) = missing.options(&[]);
    assert_eq!(problems, ["F: cannot be read: there is no such file"]);
}
