//! `compose_down` beside the real `docker compose down`, on two equal projects.

use bollard::query_parameters::RemoveImageOptions;
use serde_json::json;

use super::super::super::lab::{Folder, Lab, merged};
use super::compose_cli::labs;
use super::{succeed, texts};
use crate::harness::real;

const YAML: &str = r#"services:
  db:
    image: IMAGE
    command: [sleep, "600"]
    stop_grace_period: 0s
    volumes: ["/anonymous", "named:/named", "outside:/outside"]
    networks: [default, back, outside]
  app:
    build: .
    image: IMAGE-app
    command: [sleep, "600"]
    stop_grace_period: 0s
    depends_on: [db]
    networks: [default]
  seldom:
    image: IMAGE
    command: [sleep, "600"]
    stop_grace_period: 0s
    profiles: [seldom]
    volumes: ["/anonymous"]
  orphan:
    image: IMAGE
    command: [sleep, "600"]
    stop_grace_period: 0s
networks:
  back: {}
  outside: { external: true, name: OUTSIDE }
volumes:
  named: {}
  outside: { external: true, name: OUTSIDE }
"#;

/// The rest of the project: names of containers, networks, volumes and images, and the volumes without a name
/// that it had.
async fn left(lab: &Lab, docker: &str, project: &str, unnamed: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    let filter = format!("name={project}");
    let image = format!("reference={project}*");
    for arguments in [
        [
            "ps",
            "-a",
            "--format",
            "container {{.Names}}",
            "--filter",
            &filter,
        ],
        [
            "network",
            "ls",
            "--format",
            "network {{.Name}}",
            "--filter",
            &filter,
        ],
        [
            "volume",
            "ls",
            "--format",
            "volume {{.Name}}",
            "--filter",
            &filter,
        ],
        [
            "image",
            "ls",
            "--format",
            "image {{.Repository}}",
            "--filter",
            &image,
        ],
    ] {
        let listed = lab.command(docker, &arguments).await.unwrap();
        all.extend(listed.lines().map(|line| line.replace(project, "P")));
    }
    let volumes = lab.command(docker, &["volume", "ls", "-q"]).await.unwrap();
    let kept = unnamed
        .iter()
        .filter(|name| volumes.lines().any(|line| line == *name));
    all.push(format!(
        "unnamed volumes: {} of {}",
        kept.count(),
        unnamed.len()
    ));
    all.sort();
    all
}

/// Brings up a project with all that compose can leave behind. Returns its volumes without a name.
async fn bring_up(
    lab: &Lab,
    docker: &str,
    compose: &str,
    dir: &Folder,
    project: &str,
) -> Vec<String> {
    let run = async |program: &str, arguments: &[&str]| {
        let done = lab.command(program, arguments).await;
        done.unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    };
    let outside = format!("{project}-outside");
    run(docker, &["network", "create", &outside]).await;
    run(docker, &["volume", "create", &outside]).await;
    let yaml = YAML.replace("IMAGE", project).replace("OUTSIDE", &outside);
    let file = dir.write(&format!("{project}/compose.yaml"), &yaml);
    dir.write(
        &format!("{project}/Dockerfile"),
        &format!("FROM {project}\nENV A=1\n"),
    );
    let file = file.to_str().unwrap();
    let command = ["-p", project, "-f", file, "--profile", "seldom"];
    run(compose, &[&command[..], &["up", "-d", "--build"]].concat()).await;
    run(
        compose,
        &[
            &command[..],
            &[
                "run",
                "-d",
                "--no-deps",
                "--name",
                &format!("{project}-once"),
                "db",
                "sleep",
                "600",
            ],
        ]
        .concat(),
    )
    .await;
    let done = format!("{project}-done");
    let once = ["run", "--no-deps", "--name", &done, "db", "true"];
    run(compose, &[&command[..], &once].concat()).await;
    // Its image has the labels of the project.
    let app = format!("{project}-app");
    let foreign = format!("{project}-foreign");
    let network = format!("{project}_default");
    run(
        docker,
        &[
            "run",
            "-d",
            "--name",
            &foreign,
            "--network",
            &network,
            &app,
            "sleep",
            "600",
        ],
    )
    .await;
    // No more a service of the file.
    dir.write(
        &format!("{project}/compose.yaml"),
        &yaml.replace("  orphan:", "  other:"),
    );
    let label = format!("label=com.docker.compose.project={project}");
    let ids = run(docker, &["ps", "-aq", "--filter", &label]).await;
    let mut unnamed = Vec::new();
    for id in ids.lines() {
        let format = "{{range .Mounts}}{{.Name}} {{end}}";
        let names = run(docker, &["inspect", "--format", format, id]).await;
        let names = names.split_whitespace().filter(|name| name.len() == 64);
        unnamed.extend(names.map(str::to_owned));
    }
    unnamed
}

#[tokio::test]
async fn down_leaves_what_the_real_one_leaves() {
    let (Some(docker), Some(compose)) = (real::docker_command(), real::compose_dir()) else {
        return;
    };
    let compose = format!("{compose}/docker-compose");
    let dir = Folder::new();
    for mut lab in labs(&dir).await {
        for volumes in [false, true] {
            let projects = ["real", "ours"].map(|who| lab.name(&format!("{who}{volumes}")));
            let mut all = Vec::new();
            for project in &projects {
                for name in [
                    "db-1", "app-1", "seldom-1", "orphan-1", "once", "done", "foreign",
                ] {
                    lab.adopt(&format!("{}-{name}", &project[lab.prefix.len() + 1..]));
                }
                lab.command(&docker, &["tag", "busybox:test", project])
                    .await
                    .unwrap();
                let unnamed = bring_up(&lab, &docker, &compose, &dir, project).await;
                assert_eq!(unnamed.len(), 4, "{unnamed:?}");
                all.push(unnamed);
            }
            let [real, ours] = &projects;
            let listed = succeed!(lab, "list_compose_projects", {"project": ours});
            let rows = listed["projects"][0]["services"].as_array().unwrap().iter();
            let shown: Vec<&str> = rows.map(|row| row["container"].as_str().unwrap()).collect();
            assert!(
                !shown.iter().any(|name| name.ends_with("-foreign")),
                "{shown:?}"
            );
            assert_eq!(shown.len(), 6, "{shown:?}");
            let found = succeed!(lab, "list_containers", {"project": ours});
            assert_eq!(found["containers"].as_array().unwrap().len(), 5, "{found}");
            let stopped = succeed!(lab, "compose_service", {"project": ours, "service": "app", "action": "restart"});
            assert_eq!(
                stopped["containers"].as_array().unwrap().len(),
                1,
                "{stopped}"
            );

            let mut down = vec!["-p", real, "down"];
            down.extend(volumes.then_some("-v"));
            // The real one fails for the network that is in use.
            let _ = lab.command(&compose, &down).await;
            let arguments = json!({"project": ours, "volumes": volumes, "confirm": ours});
            let done = succeed(&lab, "compose_down", arguments).await;
            assert!(!texts(&done["removed_containers"]).is_empty(), "{done}");
            let real_left = left(&lab, &docker, real, &all[0]).await;
            let ours_left = left(&lab, &docker, ours, &all[1]).await;
            assert_eq!(ours_left, real_left, "volumes: {volumes}; {done}");
            let is_kept = |what: &str| ours_left.iter().any(|line| line == what);
            assert!(
                is_kept("container P-foreign") && is_kept("network P_default"),
                "{ours_left:?}"
            );
            assert!(
                is_kept("volume P-outside") && is_kept("network P-outside"),
                "{ours_left:?}"
            );
            assert_eq!(
                is_kept("unnamed volumes: 4 of 4"),
                !volumes,
                "{ours_left:?}"
            );
            clean(&lab, &docker, &projects, &all.concat()).await;
        }
    }
}

/// The containers of a project with their states, as the engine tells them.
async fn states(lab: &Lab, docker: &str, project: &str) -> Vec<String> {
    let filter = format!("label=com.docker.compose.project={project}");
    let format = "{{.Names}} {{.State}}";
    let list = ["ps", "-a", "--filter", &filter, "--format", format];
    let listed = lab.command(docker, &list).await.unwrap();
    let mut all: Vec<_> = listed
        .lines()
        .map(|line| line.replace(project, "P"))
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn actions_do_what_the_real_ones_do() {
    let (Some(docker), Some(compose)) = (real::docker_command(), real::compose_dir()) else {
        return;
    };
    let compose = format!("{compose}/docker-compose");
    let dir = Folder::new();
    let yaml = "services:\n  web: {image: 'busybox:test', command: [sleep, '600'], stop_grace_period: 0s, depends_on: [db]}\n  \
        db: {image: 'busybox:test', command: [sleep, '600'], stop_grace_period: 0s}\n";
    for mut lab in labs(&dir).await {
        let projects = ["real", "ours"].map(|who| lab.name(who));
        for project in &projects {
            for name in ["web-1", "web-2", "db-1"] {
                lab.adopt(&format!("{}-{name}", &project[lab.prefix.len() + 1..]));
            }
            dir.write(&format!("{project}/compose.yaml"), yaml);
        }
        let [real, ours] = &projects;
        let file = dir.path().join(real).join("compose.yaml");
        let own = json!({"project": ours, "confirm": ours});
        let up = merged(own.clone(), json!({"directory": dir.path().join(ours)}));
        for (command, tool, arguments) in [
            ("up -d db", "compose_up", json!({"services": ["db"]})),
            ("up -d", "compose_up", json!({})),
            (
                "up -d --scale web=2",
                "compose_up",
                json!({"scale": {"web": 2}}),
            ),
            (
                "stop web",
                "compose_service",
                json!({"action": "stop", "service": "web"}),
            ),
            ("start", "compose_service", json!({"action": "start"})),
            (
                "restart db",
                "compose_service",
                json!({"action": "restart", "service": "db"}),
            ),
            ("up -d", "compose_up", json!({})),
            ("stop", "compose_service", json!({"action": "stop"})),
            ("down", "compose_down", json!({})),
        ] {
            let named = ["-p", real, "-f", file.to_str().unwrap()];
            let words = [&named[..], &command.split(' ').collect::<Vec<_>>()].concat();
            lab.command(&compose, &words).await.unwrap();
            let base = if tool == "compose_up" { &up } else { &own };
            let mut arguments = merged(base.clone(), arguments);
            if tool == "compose_service" {
                arguments.as_object_mut().unwrap().remove("confirm");
            }
            succeed(&lab, tool, arguments).await;
            let [real, ours] = [
                states(&lab, &docker, real).await,
                states(&lab, &docker, ours).await,
            ];
            assert_eq!(ours, real, "{command}");
        }
    }
}

async fn clean(lab: &Lab, docker: &str, projects: &[String], unnamed: &[String]) {
    for project in projects {
        let filter = format!("name={project}");
        for (kind, all) in [("container", "-aq"), ("network", "-q"), ("volume", "-q")] {
            let list = [kind, "ls", all, "--filter", &filter];
            let listed = lab.command(docker, &list).await.unwrap();
            for id in listed.lines() {
                let force: &[&str] = if kind == "network" { &[] } else { &["-f"] };
                let removed = [&[kind, "rm"], force, &[id]].concat();
                lab.command(docker, &removed).await.unwrap();
            }
        }
        for image in [project.clone(), format!("{project}-app")] {
            let _ = lab
                .docker
                .remove_image(&image, None::<RemoveImageOptions>, None)
                .await;
        }
    }
    for volume in unnamed {
        let _ = lab.command(docker, &["volume", "rm", volume]).await;
    }
}
