//! The TLS files and the proxy of a backend.

use mcp_client::Proxy;
use mcp_client::tls::TlsFiles;

use super::*;

/// Certificates that the tests of `mcp-client` use.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp-client/tests/it/tls");

fn parse(fields: &str) -> Result<Config, ConfigError> {
    let environment = Environment {
        variable: &variable,
        folder: Path::new(FOLDER),
    };
    let text = format!("[backends.x]\n{fields}");
    source::parse(&text, "gateway.toml", &environment, Config::default())
}

#[test]
fn files_are_relative_to_the_configuration_and_the_proxy_is_read() {
    let config = parse(
        "url = \"https://x.example/mcp\"\nca = \"ca.pem\"\nclient_cert = \"server.pem\"\n\
         client_key = \"server.key.pem\"\nproxy = \"http://u:${TOKEN}@proxy.example:3128\"\n",
    );
    let Target::Http(remote) = &backend(&config.unwrap(), "x").target.clone() else {
        panic!("no server on the network");
    };
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
fn unusable_file_or_proxy_is_an_error_with_its_line() {
    let https = "url = \"https://x.example\"";
    for (fields, said) in [
        (
            format!("{https}\nca = \"none.pem\""),
            "gateway.toml:3: backends.x.ca: ",
        ),
        (
            format!("{https}\nca = \"none.pem\""),
            "none.pem cannot be read: entity not found",
        ),
        (
            format!("{https}\nca = \"server.key.pem\""),
            "has no certificate in PEM",
        ),
        (
            format!("{https}\nclient_cert = \"server.pem\""),
            "client_cert: needs `client_key`",
        ),
        (
            format!("{https}\nclient_key = \"server.pem\""),
            "client_key: needs `client_cert`",
        ),
        (
            format!("{https}\nclient_cert = \"server.pem\"\nclient_key = \"leaf.key.pem\""),
            "gateway.toml:4: backends.x.client_key: ",
        ),
        (
            "url = \"http://x.example\"\nca = \"ca.pem\"".to_owned(),
            "ca: needs a `url` with https://",
        ),
        (
            "command = [\"a\"]\nca = \"ca.pem\"".to_owned(),
            "ca: is only for a backend with `url`",
        ),
        (
            format!("{https}\nproxy = \"https://p.example\""),
            "proxy: must be \"none\" or http://",
        ),
        (format!("{https}\nproxy = \"${{TOKEN}}\""), "proxy: must be"),
    ] {
        let error = parse(&fields).map(drop).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains("s3cret"), "{error}");
    }
}
