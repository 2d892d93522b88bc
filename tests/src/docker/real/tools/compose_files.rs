//! No text of a caller, and no file that an agent may have written, makes the compose program read a file
//! outside of the allowed directories, or run for long.

use base64::prelude::{BASE64_STANDARD as STANDARD, Engine as _};

use crate::docker::prelude::*;

/// The lines that read the file at `PATH`, which are a service's up to `|` and the project's after it.
/// `BASE64` is the same path; `DIR` is the directory of the file.
const ROWS: &str = r#"
env_file: PATH
env_file: !!binary BASE64
env_file: !<tag:yaml.org,2002:binary> BASE64
env_file: !!str PATH
env_file: !reset PATH
env_file: !override [PATH]
env_file: [!!binary BASE64]
env_file: [{path: !!binary BASE64, required: true}]
env_file: [{path: PATH, format: raw}]
env_file: [{!!binary cGF0aA==: PATH}]
env_file: &a !!binary BASE64
!!binary ZW52X2ZpbGU=: PATH
!!str env_file: PATH
? env_file|x-a: 1
? !!str env_file
"env_file": PATH
"env\u005ffile": PATH
env_file: ${NO:-PATH}
env_file: $NO/PATH
env_file: ../../../../../../../../../PATH
env_file: ~/x
env_file: *p|x-p: &p PATH
<<: *m|x-m: &m {env_file: PATH}
<<: [*m]|x-m: &m {env_file: !!binary BASE64}
!!merge x: *m|x-m: &m {env_file: !!binary BASE64}
label_file: PATH
label_file: !!binary BASE64
extends: {file: PATH, service: x}
extends: {file: !!binary BASE64, service: x}
extends: !!map {file: PATH, service: x}
extends: {<<: *m, service: x}|x-m: &m {file: PATH}
|include: [PATH]
|include: [!!binary BASE64]
|include: !!binary BASE64
|include: [{path: !!binary BASE64}]
|include: [{path: [inner.yml], env_file: PATH}]
|include: [{path: inner.yml, env_file: !!binary BASE64}]
|include: [{path: inner.yml, project_directory: DIR}]
|!!binary aW5jbHVkZQ==: [PATH]
|? include
|# x
configs: [x]|configs: {x: {file: PATH}}
configs: [x]|configs: {x: {file: !!binary BASE64}}
secrets: [x]|secrets: {x: {file: PATH}}
secrets: [x]|secrets: {x: {file: !!binary BASE64}}
build: DIR
build: !!binary RElS
build: {context: ., dockerfile: PATH}
build: {context: ., dockerfile: !!binary BASE64}
build: {context: ., additional_contexts: {x: DIR}}
build: {context: ., additional_contexts: ['x=DIR']}
build: {context: ., ssh: ['default=PATH']}
build: {context: ., secrets: [x]}|secrets: {x: {file: PATH}}
build: {context: 'https://127.0.0.1/x.git'}
build: {context: 'git@127.0.0.1:x'}
volumes: ['PATH:/x']
volumes: ['DIR:/x:ro']
volumes: [{type: bind, source: PATH, target: /x}]
volumes: [{type: bind, source: !!binary BASE64, target: /x}]
volumes: ['vol:/x']|volumes: {vol: {driver_opts: {type: none, o: bind, device: DIR}}}
develop: {watch: [{path: DIR, action: sync, target: /x}]}
credential_spec: {file: 'PATH'}
provider: {type: PATH}
provider: {type: model, options: {x: PATH}}
models: [m]|models: {m: {model: PATH}}
"#;

/// From a text, and from the file itself.
#[tokio::test]
async fn no_line_of_a_project_reads_a_file_outside() {
    let (dir, outside) = (Folder::new(), Folder::new());
    let secret = outside.write("secret.env", "CANARY=canary-77\n");
    let path = secret.to_str().unwrap();
    let base64 = STANDARD.encode(path);
    dir.write("shop/Dockerfile", "FROM scratch\n");
    dir.write("shop/inner.yml", "services: {b: {image: 'busybox:test'}}\n");
    let Some(lab) = project_labs(&dir).await.into_iter().next() else {
        return;
    };
    let directory = dir.path().join("shop");
    let arguments = json!({"directory": directory, "project": lab.name("x")});
    let mut harmless = Vec::new();
    for row in ROWS.lines().filter(|row| !row.is_empty()) {
        let filled = row.replace("PATH", path).replace("BASE64", &base64);
        let filled = filled.replace("DIR", outside.str());
        let (service, end) = filled.split_once('|').unwrap_or((&filled, ""));
        // A key with a mark of its own has its value in the next line.
        let mark = |line: &str, indent: &str| match line.starts_with('?') {
            true => format!("{line}\n{indent}: [{path}]"),
            false => line.replace("# x", &format!("\u{feff}include: [{path}]")),
        };
        let (service, end) = (mark(service, "    "), mark(end, ""));
        let text = format!("{end}\nservices:\n  a:\n    image: busybox:test\n    {service}\n");
        dir.write("shop/compose.yml", &text);
        let from_text = merged(arguments.clone(), json!({"yaml": text}));
        let mut is_refused = true;
        for arguments in [&arguments, &from_text] {
            let shown = call(&lab, "compose_config", arguments.clone()).await;
            let answer = shown["content"][0]["text"].as_str().unwrap();
            is_refused &= shown["isError"] == true || answer.contains(r#""refused":""#);
            assert_lacks(&shown.to_string(), "canary");
        }
        match is_refused {
            true => {
                let text = fail(&lab, "compose_up", arguments.clone()).await;
                assert_lacks(&text, "canary");
            }
            false => harmless.push(row),
        }
    }
    // Compose leaves the file out; finds none there; and synchronises by `compose watch`, which this server does not
    // run.
    assert_eq!(
        harmless,
        [
            "env_file: !reset PATH",
            "|include: [{path: inner.yml, project_directory: DIR}]",
            "develop: {watch: [{path: DIR, action: sync, target: /x}]}"
        ]
    );
}

/// Each would hold a processor for minutes.
#[tokio::test]
async fn no_project_repeats_without_end() {
    let dir = Folder::new();
    let Some(lab) = project_labs(&dir).await.into_iter().next() else {
        return;
    };
    let nested = "x-0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned()
        + &(1..9)
            .map(|at| {
                format!(
                    "x-{at}: &a{at} [{}]\n",
                    vec![format!("*a{}", at - 1); 9].join(",")
                )
            })
            .collect::<String>();
    for (key, value) in [
        ("include", "[FILE,FILE,FILE,FILE,FILE,FILE]"),
        (
            "services",
            "{a: {extends: {file: FILE, service: a}}, b: {extends: {file: FILE, service: a}}}",
        ),
    ] {
        for at in 0..12 {
            let file = value.replace("FILE", &format!("{key}{}.yml", at + 1));
            dir.write(&format!("{key}{at}.yml"), &format!("{key}: {file}\n"));
        }
    }
    dir.write("self.yml", "include: [self.yml]\n");
    let web = "services: {w: {image: 'busybox:test'}}\n";
    for text in [
        nested + web,
        format!("include: [include0.yml]\n{web}"),
        "services: {w: {extends: {file: services0.yml, service: a}}}".to_owned(),
        format!("include: [self.yml]\n{web}"),
    ] {
        let text = fail!(lab, "compose_config", {"directory": dir.path(), "project": lab.name("x"), "yaml": text});
        let is_ended = [
            "did not end within 10 s",
            "memory",
            "circular",
            "cycle",
            "not valid",
        ];
        assert!(is_ended.iter().any(|end| text.contains(end)), "{text}");
    }
    let large = format!("x-a: [{}x]\n{web}", "x,".repeat(4_000_000));
    dir.write("large/compose.yml", &large);
    let large = dir.path().join("large");
    fails_with!(lab, "compose_config", {"directory": large, "project": lab.name("x")}, "(512 MiB)");
}
