//! The settings of a server on the network: its TLS files, the proxy and the tokens.

use mcp_client::Proxy;
use mcp_client::oauth::GrantType;
use mcp_client::tls::TlsFiles;

use super::*;

/// Certificates that the tests of `mcp-client` use.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp-client/tests/it/tls");

fn parse(fields: &str) -> Result<Remote, ConfigError> {
    let environment = Environment {
        variable: &variable,
        folder: Path::new(FOLDER),
    };
    let text = format!("[backends.x]\n{fields}");
    let config = source::parse(&text, "gateway.toml", &environment, Config::default())?;
    match &backend(&config, "x").target {
        Target::Http(remote) => Ok(remote.clone()),
        Target::Child(_) => panic!("no server on the network"),
    }
}

fn with_oauth(fields: &str) -> Result<Remote, ConfigError> {
    let fields = format!("url = \"https://x.example/mcp\"\n[backends.x.oauth]\n{fields}\n");
    parse(&fields)
}

#[test]
fn files_are_relative_to_the_configuration_and_the_proxy_is_read() {
    let remote = parse(
        "url = \"https://x.example/mcp\"\nca = \"ca.pem\"\nclient_cert = \"server.pem\"\n\
         client_key = \"server.key.pem\"\nproxy = \"http://u:${TOKEN}@proxy.example:3128\"\n",
    );
    let remote = remote.unwrap();
    let file = |name| Path::new(FOLDER).join(name);
    let files = TlsFiles {
        ca: Some(file("ca.pem")),
        client: Some((file("server.pem"), file("server.key.pem"))),
    };
    assert!(remote.tls == files);
    let proxy = Proxy::Url("http://u:s3cret@proxy.example:3128".to_owned());
    assert!(remote.proxy == proxy);
}

#[test]
fn settings_of_tokens_are_read() {
    let remote = with_oauth(
        "grant = \"client_credentials\"\nclient_id = \"me\"\nclient_secret = \"${TOKEN}\"\n\
         issuer = \"https://login.example/t\"\nscope = \"a b\"\nredirect_port = 7",
    );
    let settings = remote.unwrap().oauth.unwrap();
    assert_eq!(settings.grant, GrantType::ClientCredentials);
    assert_eq!(settings.backend, "x");
    let secret = settings.client_secret.as_ref().unwrap().read().unwrap();
    assert_eq!(secret, "s3cret");
    let texts = [&settings.client_id, &settings.issuer, &settings.scope].map(Option::as_deref);
    let expected = ["me", "https://login.example/t", "a b"].map(Some);
    assert_eq!((texts, settings.redirect_port), (expected, 7));
    with_oauth("grant = \"login\"").map(drop).unwrap();
}

/// Fields that cannot be used, each with a part of its error.
const FAULTS: &str = r#"
url = "https://x.example"\nca = "none.pem"
=> gateway.toml:3: backends.x.ca:
url = "https://x.example"\nca = "none.pem"
=> none.pem cannot be read: entity not found
url = "https://x.example"\nca = "server.key.pem"
=> has no certificate in PEM
url = "https://x.example"\nclient_cert = "server.pem"
=> client_cert: needs `client_key`
url = "https://x.example"\nclient_key = "server.pem"
=> client_key: needs `client_cert`
url = "https://x.example"\nclient_cert = "server.pem"\nclient_key = "leaf.key.pem"
=> gateway.toml:4: backends.x.client_key:
url = "http://x.example"\nca = "ca.pem"
=> ca: needs a `url` with https://
command = ["a"]\nca = "ca.pem"
=> ca: is only for a backend with `url`
url = "https://x.example"\nproxy = "https://p.example"
=> proxy: must be "none" or http://
url = "https://x.example"\nproxy = "${TOKEN}"
=> proxy: must be
url = "https://x"\ntoken = "${TOKEN}"\noauth = { grant = "login" }
=> token: must not be combined with `oauth`
"#;

/// Settings that do not fit, each with a part of its error.
const FAULTS_OF_TOKENS: &str = r#"
grant = "password"
=> gateway.toml:4: backends.x.oauth.grant:
grant = "client_credentials"
=> needs `client_id` and `client_secret`
grant = "client_credentials"\nclient_id = "a"
=> client_id: needs `client_secret`
grant = "login"\nclient_id = "a"
=> gateway.toml:5: backends.x.oauth.client_id: needs `issuer`
grant = "login"\nclient_secret = "a"
=> client_secret: needs `client_id`
grant = "login"\nissuer = "login.example"
=> issuer: must be the URL of an authorization server
grant = "login"\nclient_metadata = "http://x"
=> client_metadata: must be a URL with https://
grant = "login"\nscopes = "a"
=> unknown field `scopes`
"#;

#[test]
fn unusable_field_is_an_error_with_its_line() {
    assert_said(FAULTS, |fields| parse(fields).err().unwrap().to_string());
    assert_said(FAULTS_OF_TOKENS, |fields| {
        with_oauth(fields).err().unwrap().to_string()
    });
}
