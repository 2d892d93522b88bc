//! Builds and networks leave the network of the engine's host alone.

use serde_json::{Value, json};

use super::super::super::lab::{Folder, Lab, merged};
use super::compose_cli::labs;
use super::{call, fail, succeed};
use crate::harness::real;

/// Dockerfiles by which the builder would reach the host's network; `;` ends a line.
const FETCHES: [&str; 18] = [
    "FROM scratch;ADD http://127.0.0.1:7/x /x",
    "FROM scratch;ADD https://169.254.169.254/latest/ /x",
    "FROM scratch;add --checksum=sha256:0 http://127.0.0.1:7/x /x",
    "FROM scratch;ADD [\"\\u0068ttp://127.0.0.1:7/x\", \"/x\"]",
    "FROM scratch;ADD \"http\"://127.0.0.1:7/x /x",
    "FROM scratch;ARG U=http://127.0.0.1:7/x;ADD ${U} /x",
    "FROM scratch;ENV U=tp://127.0.0.1:7/x;ADD ht$U /x",
    "FROM scratch;AD\\;D http://127.0.0.1:7/x /x",
    "# escape=`;FROM scratch;ADD `;http://127.0.0.1:7/x /x",
    "FROM scratch;ADD git@127.0.0.1:x.git /x",
    "FROM scratch;ADD https://127.0.0.1:7/x.git#main /x",
    "FROM scratch;ONBUILD ADD http://127.0.0.1:7/x /x",
    "FROM scratch;COPY <<E /x;ADD http://127.0.0.1:7/x /x;E",
    "FROM busybox:test;RUN --network=host true",
    "FROM busybox:test;RUN --security=insecure true",
    "# syntax=127.0.0.1:7/frontend;FROM scratch",
    "#!x;// syntax=127.0.0.1:7/frontend;FROM scratch",
    "ARG I=busybox:test;ARG I=other;FROM $I",
];

const REFUSED: &str = "This server does not build with";

/// A server on each engine that may use the host's network, and one that may not.
async fn pairs(folder: &Folder) -> Vec<(Lab, Lab)> {
    let policy = r#"{"create": {"host_namespaces": true}}"#;
    let policy = folder.write("policy.json", policy);
    let policy = [
        ("MCP_TOOLSETS", "all"),
        ("DOCKER_MCP_POLICY", policy.to_str().unwrap()),
    ];
    let mut pairs = Vec::new();
    for host in real::docker_engines() {
        let free = Lab::at(host.clone(), &policy).await;
        pairs.push((free, Lab::at(host, &policy[..1]).await));
    }
    pairs
}

#[tokio::test]
async fn builder_fetches_nothing() {
    let folder = Folder::new();
    for (free, bounded) in pairs(&folder).await {
        let tag = free.name("fetch:1");
        for row in FETCHES {
            let arguments = json!({"tag": tag, "dockerfile": row.replace(';', "\n")});
            let text = fail(&bounded, "build_image", arguments).await;
            assert!(text.starts_with(REFUSED), "{row}: {text}");
            assert!(text.contains("host_namespaces"), "{row}: {text}");
        }
        let arguments = json!({"tag": tag, "dockerfile": "FROM scratch",
            "build_args": {"BUILDKIT_SYNTAX": "127.0.0.1:7/x"}});
        let text = fail(&bounded, "build_image", arguments).await;
        assert!(text.starts_with(REFUSED), "{text}");
        // The same, where the operator allows it: it reaches a port on which no program listens.
        let arguments = json!({"tag": tag, "dockerfile": FETCHES[0].replace(';', "\n")});
        let text = fail(&free, "build_image", arguments).await;
        assert!(text.contains("connection refused"), "{text}");
        // An image whose children fetch, and a frontend that was built here under a known name.
        let base = free.name("onbuild:1");
        let trigger = "FROM scratch\nONBUILD ADD http://127.0.0.1:7/x /x\nLABEL a=b";
        let frontend = format!("docker/dockerfile:{}", free.name("x"));
        for (tag, dockerfile) in [(&base, trigger), (&frontend, "FROM scratch\nLABEL a=b")] {
            succeed!(free, "build_image", {"tag": tag, "dockerfile": dockerfile});
        }
        for dockerfile in [
            format!("FROM {base}\nLABEL c=d"),
            format!("ARG B={base}\nFROM scratch AS x\nFROM ${{B}} AS y\nFROM x"),
            format!("FROM scratch\nRUN x \\\\\nFROM {base}"),
            format!("# syntax={frontend}\nFROM scratch"),
        ] {
            let arguments = json!({"tag": tag, "dockerfile": dockerfile});
            let text = fail(&bounded, "build_image", arguments).await;
            assert!(text.starts_with(REFUSED), "{dockerfile}: {text}");
        }
        // What has nothing to do with the network. The name of the stage cannot be the beginning of an id.
        let usual = "# syntax=docker/dockerfile:1\nARG I=busybox:test\nFROM ${I} AS one\nADD one /x/\nADD \
            ./t$HOME* /y/\nRUN echo ADD http://127.0.0.1/\nFROM one\nCOPY --from=one /x/one /z";
        let arguments = json!({"tag": tag, "dockerfile": usual, "files": {"one": "1", "t": "2"}});
        let built = call(&bounded, "build_image", arguments).await;
        assert!(!built.to_string().contains(REFUSED), "{built}");
        for image in [&tag, &base, &frontend] {
            call(
                &free,
                "remove_image",
                json!({"image": image, "confirm": image}),
            )
            .await;
        }
    }
}

/// The builds of a project are bound like those of `build_image`.
#[tokio::test]
async fn builds_of_projects_fetch_nothing() {
    let dir = Folder::new();
    let Some(lab) = labs(&dir).await.into_iter().next() else {
        return;
    };
    let build = |build: Value| {
        let web = json!({"image": format!("{}:1", lab.name("web")), "build": build});
        // Compose replaces variables in its files.
        json!({"services": {"web": web}})
            .to_string()
            .replace('$', "$$")
    };
    dir.write("Dockerfile", "FROM scratch\n");
    let mut rows: Vec<(Value, &str)> = FETCHES
        .iter()
        .map(|row| json!({"context": ".", "dockerfile_inline": row.replace(';', "\n")}))
        .map(|build| (build, REFUSED))
        .collect();
    dir.write("remote/Dockerfile", &FETCHES[0].replace(';', "\n"));
    let option = "the option";
    let context = "absolute path";
    rows.extend([
        (json!("./remote"), REFUSED),
        (
            json!({"context": ".", "dockerfile": "remote/Dockerfile"}),
            REFUSED,
        ),
        (json!({"context": ".", "network": "host"}), option),
        (json!({"context": ".", "ssh": ["default"]}), option),
        (json!({"context": ".", "privileged": true}), option),
        (
            json!({"context": ".", "entitlements": ["network.host"]}),
            "ntitlements",
        ),
        (
            json!({"context": ".", "cache_from": ["127.0.0.1:7/x"]}),
            option,
        ),
        (json!({"context": "http://127.0.0.1:7/x.tar"}), context),
        (json!({"context": "git://127.0.0.1:7/x"}), context),
        (
            json!({"context": "https://127.0.0.1:7/x.git#main"}),
            context,
        ),
        (
            json!({"context": ".", "additional_contexts": {"x": "http://127.0.0.1:7/x"}}),
            context,
        ),
        (
            json!({"context": ".", "additional_contexts": {"x": "docker-image://127.0.0.1:7/x"}}),
            context,
        ),
    ]);
    for (row, reason) in rows {
        let arguments = json!({"directory": dir.path(), "project": lab.name("x"),
            "yaml": build(row.clone())});
        let shown = call(&lab, "compose_config", arguments.clone()).await;
        assert!(shown.to_string().contains(reason), "{row}: {shown}");
        let text = fail(
            &lab,
            "compose_up",
            merged(arguments, json!({"build": true})),
        )
        .await;
        assert!(text.contains(reason), "{row}: {text}");
    }
}

/// Ranges that no network may have, and why.
const RANGES: [(&str, &str); 14] = [
    ("8.8.8.0/24", "private"),
    ("127.0.0.0/8", "private"),
    ("169.254.169.0/24", "private"),
    ("169.254.169.254/32", "private"),
    ("0.0.0.0/0", "private"),
    ("10.0.0.0/7", "private"),
    ("100.64.0.0/10", "private"),
    ("172.32.0.0/16", "private"),
    ("224.0.0.0/4", "private"),
    ("2001:db8::/64", "private"),
    ("fe80::/64", "private"),
    ("::ffff:127.0.0.0/104", "private"),
    ("10.1.0.0", "an address and a length"),
    ("nonsense", "an address and a length"),
];

#[tokio::test]
async fn networks_take_no_addresses_of_the_host() {
    let dir = Folder::new();
    for lab in labs(&dir).await {
        let network = lab.name("net");
        let project = |range: Value| {
            json!({"services": {"web": {"image": "busybox:test", "networks": ["n"],
                "command": ["sleep", "600"], "stop_grace_period": "0s"}},
                "networks": {"n": {"name": network, "ipam": {"config": [range]}}}})
            .to_string()
        };
        let deploy = |range: Value| json!({"directory": dir.path(), "project": lab.name("x"), "yaml": project(range)});
        for (range, reason) in RANGES {
            let reason = match reason {
                "private" => "does not create networks with the subnet",
                reason => reason,
            };
            let arguments = json!({"network": network, "subnet": range});
            let text = fail(&lab, "create_network", arguments).await;
            assert!(text.contains(reason), "{range}: {text}");
            let shown = call(&lab, "compose_config", deploy(json!({"subnet": range}))).await;
            assert!(shown.to_string().contains(reason), "{range}: {shown}");
            fail(&lab, "compose_up", deploy(json!({"subnet": range}))).await;
        }
        // Ranges that its other networks have, the engine refuses itself.
        let bridge = lab.docker.inspect_network("bridge", None).await.unwrap();
        let taken = bridge
            .ipam
            .unwrap()
            .config
            .unwrap()
            .remove(0)
            .subnet
            .unwrap();
        let text = fail(
            &lab,
            "create_network",
            json!({"network": network, "subnet": taken}),
        )
        .await;
        assert!(
            text.contains("overlaps") || text.contains("has a route to"),
            "{text}"
        );
        let [a, b] = {
            let random = uuid::Uuid::new_v4().into_bytes();
            [random[0], random[1]].map(|byte| byte.clamp(1, 250))
        };
        let subnet = format!("10.{a}.{b}.0/28");
        succeed!(lab, "create_network", {"network": network, "subnet": subnet});
        succeed!(lab, "remove_network", {"network": network, "confirm": network});
        // A project's own network is there when it is brought up once more.
        let name = lab.name("x");
        for _ in 0..2 {
            let up = merged(deploy(json!({"subnet": subnet})), json!({"confirm": name}));
            assert_eq!(succeed(&lab, "compose_up", up).await["running"], 1);
        }
        succeed!(lab, "compose_down", {"project": name, "confirm": name});
    }
}
