//! Builds and networks leave the network of the engine's host alone.

use std::net::Ipv4Addr;

use crate::docker::prelude::*;

/// Dockerfiles by which the builder would reach the host's network; `;` ends a line.
const FETCHES: [&str; 17] = [
    "FROM scratch;ADD http://127.0.0.1:7/x /x",
    "FROM scratch;ADD https://169.254.169.254/latest/ /x",
    "FROM scratch;add --checksum=sha256:7aa7a5359173d05b63cfd682e3c38487f3cb4f7f1d60659fe59fab1505977d4c http://127.0.0.1:7/x /x",
    "FROM scratch;ADD [\"\\u0068ttp://127.0.0.1:7/x\", \"/x\"]",
    "FROM scratch;ARG U=http://127.0.0.1:7/x;ADD ${U} /x",
    "FROM scratch;ENV U=tp://127.0.0.1:7/x;ADD ht$U /x",
    "FROM scratch;AD\\;D http://127.0.0.1:7/x /x",
    "# escape=`;FROM scratch;ADD `;http://127.0.0.1:7/x /x",
    "FROM scratch;ADD git@127.0.0.1:x.git /x",
    "FROM scratch;ADD https://127.0.0.1:7/x.git#main /x",
    "FROM scratch;COPY <<E /x;y;E;ADD http://127.0.0.1:7/x /x",
    "FROM busybox:test;RUN --network=host true",
    "FROM BASE;LABEL c=d",
    "FROM 127.0.0.1:7/x",
    "FROM 127.1:7/x",
    "FROM busybox:test;COPY --from=localhost:7/x /a /b",
    "# syntax=localhost:7/x;FROM scratch;LABEL a=b",
];

const REFUSED: &str = "A build may not fetch an address or a repository";

/// A server that may use the host's network, and one that may not, with the programs of Docker; on each engine.
async fn pairs(folder: &Folder) -> Vec<(Lab, Lab)> {
    let policy = r#"{"create": {"host_namespaces": true}}"#;
    let policy = folder.write("policy.json", policy);
    let env = [
        ("DOCKER_MCP_PROJECT_DIR", folder.str()),
        ("DOCKER_MCP_POLICY", policy.to_str().unwrap()),
    ];
    let (free, bounded) = (labs(&env).await, labs(&env[..1]).await);
    free.into_iter().zip(bounded).collect()
}

/// With `build_image` and in a project. The operator may allow it, also on an engine whose BuildKit knows no
/// policy.
#[tokio::test]
async fn builder_fetches_nothing() {
    let folder = Folder::new();
    for (free, bounded) in pairs(&folder).await {
        let version = free.docker.version().await.unwrap().api_version.unwrap();
        let minor: u32 = version.strip_prefix("1.").unwrap().parse().unwrap();
        // That of Docker 24.
        let is_old = minor < 43;
        let (tag, base) = (free.name("fetch:1"), free.name("onbuild:1"));
        let trigger = "FROM scratch\nONBUILD ADD http://127.0.0.1:7/x /x\nLABEL a=b";
        succeed!(free, "build_image", {"tag": base, "dockerfile": trigger});
        let reason = if is_old {
            "older than Docker 24"
        } else {
            REFUSED
        };
        for row in FETCHES {
            let dockerfile = row.replace(';', "\n").replace("BASE", &base);
            let text = fail!(bounded, "build_image", {"tag": tag, "dockerfile": dockerfile});
            assert!(text.contains(reason), "{row}: {text}");
            assert!(text.contains("host_namespaces"), "{row}: {text}");
            // Compose replaces variables in its files.
            let web =
                json!({"image": tag, "build": {"context": ".", "dockerfile_inline": dockerfile}});
            let yaml = json!({"services": {"web": web}})
                .to_string()
                .replace('$', "$$");
            let text = fail!(bounded, "compose_up", {"directory": folder.path(), "project": free.name("x"),
                "yaml": yaml, "build": true, "confirm": free.name("x")});
            assert!(text.contains(reason), "{row}: {text}");
        }
        // The same, where the operator allows it: it reaches a port on which no program listens.
        let arguments = json!({"tag": tag, "dockerfile": FETCHES[0].replace(';', "\n")});
        let text = fail(&free, "build_image", arguments).await;
        assert!(text.contains("connection refused"), "{text}");
        // This has nothing to do with the network.
        let usual = "ARG I=busybox:test\nFROM ${I} AS one\nADD one /x/\nADD \
            ./t$HOME* /y/\nRUN echo ADD http://127.0.0.1/\nFROM one\nCOPY --from=one /x/one /z";
        let arguments = json!({"tag": tag, "dockerfile": usual, "files": {"one": "1", "t": "2"}});
        succeed(
            if is_old { &free } else { &bounded },
            "build_image",
            arguments,
        )
        .await;
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

/// The routes of this machine in private ranges.
fn private_routes() -> Vec<String> {
    let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let routes = routes.lines().skip(1).filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(words[at], 16).unwrap();
        let (address, mask) = (Ipv4Addr::from(number(1).to_ne_bytes()), number(7));
        let is_whole = mask.count_ones() > 8;
        (address.is_private() && is_whole).then(|| format!("{address}/{}", mask.count_ones()))
    });
    routes.collect()
}

#[tokio::test]
async fn networks_take_no_addresses_of_the_host() {
    let dir = Folder::new();
    for lab in project_labs(&dir).await {
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
            let text = fail!(lab, "create_network", {"network": network, "subnet": range});
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
        for taken in private_routes() {
            let text = fail!(lab, "create_network", {"network": network, "subnet": taken});
            assert_contains(&text, "has a route to");
        }
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
    }
}
