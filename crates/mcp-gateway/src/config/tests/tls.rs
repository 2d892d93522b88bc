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
"#;

#[test]
fn unusable_file_or_proxy_is_an_error_with_its_line() {
    assert_said(FAULTS, |fields| parse(fields).err().unwrap().to_string());
}
