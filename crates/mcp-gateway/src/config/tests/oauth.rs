//! The settings of tokens for a backend.

use mcp_client::oauth::GrantType;

use super::*;

fn parse_with(fields: &str) -> Result<Config, ConfigError> {
    let text =
        format!("[backends.x]\nurl = \"https://x.example/mcp\"\n[backends.x.oauth]\n{fields}\n");
    parse("gateway.toml", &text)
}

#[test]
fn fields_are_read() {
    let config = parse_with(
        "grant = \"client_credentials\"\nclient_id = \"me\"\nclient_secret = \"${TOKEN}\"\n\
         issuer = \"https://login.example/t\"\nscope = \"a b\"\nredirect_port = 7",
    );
    let config = config.unwrap();
    let Target::Http(remote) = &backend(&config, "x").target else {
        panic!("no server on the network");
    };
    let settings = remote.oauth.as_ref().unwrap();
    assert_eq!(settings.grant, GrantType::ClientCredentials);
    assert_eq!(settings.backend, "x");
    let secret = settings.client_secret.as_ref().unwrap().read().unwrap();
    assert_eq!(secret, "s3cret");
    let texts = [&settings.client_id, &settings.issuer, &settings.scope].map(Option::as_deref);
    let expected = ["me", "https://login.example/t", "a b"].map(Some);
    assert_eq!((texts, settings.redirect_port), (expected, 7));
    parse_with("grant = \"login\"").unwrap();
}

/// Settings that do not fit, each with a part of its error.
const FAULTS: &str = r#"
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
fn unfit_settings_are_an_error_with_their_line() {
    assert_said(FAULTS, |fields| {
        parse_with(fields).err().unwrap().to_string()
    });
    let error = error(
        "[backends.x]\nurl = \"https://x\"\ntoken = \"${TOKEN}\"\noauth = { grant = \"login\" }",
    );
    let expected = "token: must not be combined with `oauth`";
    assert!(error.contains(expected), "{error}");
}
