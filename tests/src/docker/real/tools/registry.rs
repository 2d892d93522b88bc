//! Registries: logins of a real one with a password, on the engine's own loopback, and one without.

use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use bollard::query_parameters::RemoveImageOptionsBuilder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::docker::prelude::*;
use crate::docker::proxy::listen;

/// Starts one that takes `seconds` between the 21 parts of a layer; the name of its image, whose
/// tag is `1`.
pub(super) async fn start(lab: &Lab, seconds: &str) -> String {
    let more = json!({
        "Env": [format!("SLOWNESS={seconds}")],
        "ExposedPorts": {"5000/tcp": {}},
        "HostConfig": {"PortBindings": {"5000/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}},
    });
    let script = ["sh", "-c", include_str!("registry.sh")];
    let name = lab.run("registry", &script, more).await;
    lab.until_written(&name, "ready", 1).await;
    format!("{}/app", lab.address(&name).await)
}

/// Its Base64 has the two characters in which the alphabets differ.
const PASSWORD: &str = "s~?>e~?>c~~~";
/// The same for the registry, as `htpasswd -B` writes it.
const HTPASSWD: &str = "me:$2y$05$abcdefghijklmnopqrstuuIYYZPWPftnCynhQotmWkDo8ZZMfa2ze\n";
/// A credential helper, which knows one server.
const HELPER: &str = r#"#!/bin/sh
read -r server
case "$1 $server" in
    "get ADDRESS") echo '{"ServerURL":"ADDRESS","Username":"me","Secret":"PASSWORD"}' ;;
    *) echo "credentials not found in native keychain"; exit 1 ;;
esac
"#;

/// Starts a registry in a container that has the files of this machine; returns its address.
async fn start_registry(lab: &Lab, dir: &Folder, program: &str) -> String {
    let home = dir.str();
    dir.write("htpasswd", HTPASSWD);
    let config = format!(
        "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {home}/data}}}}\n\
         http: {{addr: ':5000'}}\nauth: {{htpasswd: {{realm: test, path: {home}/htpasswd}}}}\n"
    );
    let config = dir.write("registry.yml", &config);
    let command = [
        "chroot",
        "/host",
        program,
        "serve",
        config.to_str().unwrap(),
    ];
    let more = json!({
        "ExposedPorts": {"5000/tcp": {}},
        "HostConfig": {"Binds": ["/:/host"],
            "PortBindings": {"5000/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}},
    });
    let name = lab.run("registry", &command, more).await;
    lab.until_written(&name, "listening on", 1).await;
    lab.address(&name).await
}

#[tokio::test]
async fn logins_are_those_of_the_docker_configuration() {
    let (Some(program), Some(programs)) = (real::registry(), real::compose_dir()) else {
        return;
    };
    let newest = real::docker();
    for host in real::docker_engines() {
        let dir = Folder::new();
        let path = format!("{}/bin:{programs}:/usr/bin:/bin", dir.str());
        // A build gets no image from the host itself otherwise.
        let policy = dir.write("policy.json", r#"{"create": {"host_namespaces": true}}"#);
        let env = [
            ("DOCKER_CONFIG", dir.str()),
            ("DOCKER_MCP_POLICY", policy.to_str().unwrap()),
            ("PATH", &path),
        ];
        let lab = Lab::at(host, &env).await;
        let registry = start_registry(&lab, &dir, &program).await;
        let helper = HELPER
            .replace("ADDRESS", &registry)
            .replace("PASSWORD", PASSWORD);
        for (name, text) in [("test", &*helper), ("broken", "#!/bin/sh\nexit 3\n")] {
            let file = dir.write(&format!("bin/docker-credential-{name}"), text);
            fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let login = |password: &str| {
            let auth = base64::engine::general_purpose::STANDARD.encode(format!("me:{password}"));
            json!({"auths": {format!("http://{registry}/v2/"): {"auth": auth}}})
        };
        let configure = |config: &Value| dir.write("config.json", &config.to_string());
        let image = format!("{registry}/app:1");
        succeed!(lab, "tag_image", {"image": "busybox:test", "new_name": image});
        let push = json!({"image": image, "confirm": image});
        let refused = fail(&lab, "push_image", push.clone()).await;
        for part in ["has no login", "docker login", &registry] {
            assert_contains(&refused, part);
        }
        configure(&login("wrong"));
        fails_with!(lab.server, "push_image", push, "is not enough");
        configure(&login(PASSWORD));
        let (loss, pushed) = confirmed(&lab, "push_image", json!({"image": image}), &image).await;
        assert_contains(&loss, "replaces the image");
        assert_contains(pushed["digest"].as_str().unwrap(), "sha256:");

        let docker = lab.docker.clone();
        let forget = async |name: &str| {
            let options = RemoveImageOptionsBuilder::new().force(true).build();
            let _ = docker.remove_image(name, Some(options), None).await;
        };
        let stored = json!({"credsStore": "test", "auths": {&registry: {}}});
        let of_server = json!({"credHelpers": {&registry: "test"}, "credsStore": "broken"});
        let unknown = json!({"credsStore": "test", "auths": login(PASSWORD)["auths"]});
        for config in [login(PASSWORD), stored, of_server, unknown] {
            forget(&image).await;
            configure(&config);
            let pulled = succeed!(lab, "pull_image", {"image": image});
            assert_eq!(pulled["new"], true, "{config}: {pulled}");
        }
        // The program that builds reads them itself.
        if newest.as_ref() == Some(&lab.host) {
            let built = format!("{}:1", lab.name("built"));
            let build = json!({"tag": built, "dockerfile": format!("FROM {image}\nLABEL a=b\n")});
            forget(&image).await;
            succeed(&lab, "build_image", build.clone()).await;
            forget(&built).await;
            configure(&json!({}));
            fails_with!(lab.server, "build_image", build, "401 Unauthorized");
        }
        forget(&image).await;
        for (config, reason) in [
            (json!({}), "has no login"),
            (
                json!({"credsStore": "broken"}),
                "`docker-credential-broken`",
            ),
            (
                json!({"credsStore": "absent"}),
                "`docker-credential-absent`",
            ),
            (json!({"credsStore": "../x"}), "failed"),
            (json!({"auths": 1}), "cannot be read"),
        ] {
            configure(&config);
            fails_with!(lab, "pull_image", {"image": image}, reason);
        }
        assert!(!lab.log().contains(PASSWORD), "{}", lab.log());

        // A public image needs no login, so a failing helper is only logged.
        lab.remove(&lab.name("registry")).await;
        let public = start(&lab, "0").await + ":1";
        configure(&json!({"credsStore": "broken"}));
        succeed!(lab, "pull_image", {"image": public});
        forget(&public).await;
        lab.wait_for_log("no login for").await;
    }
}

/// The name of an image can lead the engine to any program that it reaches.
#[tokio::test]
async fn answer_of_a_program_that_is_no_registry_is_not_shown() {
    let Some(lab) = lab().await else { return };
    let (address, _task) = listen(|mut stream| async move {
        let page = "<html>canary-61</html>";
        let head = "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nConnection: close\r\n";
        let reply = format!("{head}Content-Length: {}\r\n\r\n{page}", page.len());
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(reply.as_bytes()).await;
    })
    .await;
    let image = format!("{}/x:1", address.strip_prefix("tcp://").unwrap());
    let text = fail!(lab, "pull_image", {"image": image});
    assert_contains(&text, "cannot be pulled");
    assert_lacks(&text, "canary");
    assert_lacks(&text, "<");
}
