//! Compares what the tools tell of a project with `docker compose ps`, `ls` and `logs`, and the action `down` with the real
//! `docker compose down`, on two equal projects.

use futures_util::future::join_all;

use crate::docker::prelude::*;

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
    command: [sh, -c, "echo app; echo more; sleep 600"]
    stop_grace_period: 0s
    depends_on: [db]
    networks: [default]
    scale: 2
    ports: ["127.0.0.1::80"]
    expose: [53/udp]
    healthcheck: { test: [CMD, "true"], interval: 1s }
  seldom:
    image: IMAGE
    command: [sleep, "600"]
    stop_grace_period: 0s
    profiles: [seldom]
    volumes: ["/anonymous"]
    environment: { A: one }
  orphan:
    image: IMAGE
    command: [sh, -c, "echo orphan; sleep 600"]
    stop_grace_period: 0s
  ended:
    image: IMAGE
    command: [sh, -c, "echo out; echo err >&2; exit 3"]
    profiles: [shown]
    logging: { driver: local }
  silent:
    image: IMAGE
    command: [sleep, "600"]
    stop_grace_period: 0s
    profiles: [shown]
    container_name: IMAGE-own-name
    logging: { driver: none }
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
    for list in [
        "ps -a --format container/{{.Names}} --filter name=P",
        "network ls --format network/{{.Name}} --filter name=P",
        "volume ls --format volume/{{.Name}} --filter name=P",
        "image ls --format image/{{.Repository}} --filter reference=P*",
    ] {
        let list = list.replace("=P", &format!("={project}"));
        let arguments: Vec<_> = list.split(' ').collect();
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

/// Brings up a project with all that compose can leave behind, and with all that its lists show if it `is_shown`. Returns
/// its volumes without a name.
async fn bring_up(
    lab: &Lab,
    docker: &str,
    compose: &str,
    dir: &Folder,
    project: &str,
    is_shown: bool,
) -> Vec<String> {
    let run = async |program: &str, arguments: &str| {
        let arguments = arguments.replace("PROJECT", project);
        let words: Vec<_> = arguments.split(' ').collect();
        let done = lab.command(program, &words).await;
        done.unwrap_or_else(|error| panic!("{arguments}: {error}"))
    };
    let outside = format!("{project}-outside");
    run(docker, "network create PROJECT-outside").await;
    run(docker, "volume create PROJECT-outside").await;
    let yaml = YAML.replace("IMAGE", project).replace("OUTSIDE", &outside);
    let file = dir.write(&format!("{project}/compose.yaml"), &yaml);
    let dockerfile = format!("FROM {project}\nENV A=1\n");
    dir.write(&format!("{project}/Dockerfile"), &dockerfile);
    let profile = if is_shown { " --profile shown" } else { "" };
    let run_compose = async |words: &str| {
        let file = file.display();
        let words = format!("-p PROJECT --profile seldom{profile} -f {file} {words}");
        run(compose, &words).await;
    };
    run_compose("up -d --build").await;
    // A recreated container takes over the volume without a name.
    let changed = yaml.replace("A: one", "A: two");
    fs::write(&file, &changed).unwrap();
    // Single commands, and a container whose image has the labels of the project.
    for words in [
        "up -d seldom",
        "run -d --no-deps --name PROJECT-once db sleep 600",
        "run --no-deps --name PROJECT-done db true",
    ] {
        run_compose(words).await;
    }
    if is_shown {
        let more = "services: { later: { image: busybox:test, command: [sleep, '600'], stop_grace_period: 0s } }";
        let more = dir.write(&format!("{project}/more.yaml"), more);
        run_compose(&format!("-f {} up -d later", more.display())).await;
        run_compose("stop orphan").await;
    }
    let foreign = "run -d --name PROJECT-foreign --network PROJECT_default PROJECT-app sleep 600";
    run(docker, foreign).await;
    // No more a service of the file.
    fs::write(&file, changed.replace("  orphan:", "  other:")).unwrap();
    let ids = run(
        docker,
        "ps -aq --filter label=com.docker.compose.project=PROJECT",
    )
    .await;
    let mut unnamed = Vec::new();
    for id in ids.lines() {
        let format = "{{range .Mounts}}{{.Name}} {{end}}";
        let inspect = ["inspect", "--format", format, id];
        let names = lab.command(docker, &inspect).await.unwrap();
        let names = names.split_whitespace().filter(|name| name.len() == 64);
        unnamed.extend(names.map(str::to_owned));
    }
    unnamed
}

/// A person's `up` finds nothing to change in what `compose_up` has created, so that no container loses its files.
#[tokio::test]
async fn containers_stay_when_the_real_one_brings_them_up() {
    let Some(compose) = real::compose_dir() else {
        return;
    };
    let compose = format!("{compose}/docker-compose");
    let dir = Folder::new();
    for lab in project_labs(&dir).await {
        let project = lab.name("kept");
        let yaml = web_project("volumes: ['named:/named']", "volumes: {named: {}}");
        let file = dir.write(&format!("{project}/compose.yaml"), &yaml);
        let directory = dir.path().join(&project);
        succeed!(lab, "compose_up", {"directory": directory, "project": project});
        let web = lab.name("kept-web-1");
        let created = lab.id(&web).await;
        let file = file.to_str().unwrap();
        let up = ["-p", &project, "-f", file, "up", "-d"];
        lab.command(&compose, &up).await.unwrap();
        assert_eq!(lab.id(&web).await, created);
    }
}

/// The action `down`, on two equal projects.
#[tokio::test]
async fn down_leaves_what_the_real_one_leaves() {
    let (Some(docker), Some(compose)) = (real::docker_command(), real::compose_dir()) else {
        return;
    };
    let compose = format!("{compose}/docker-compose");
    let dir = Folder::new();
    let labs = project_labs(&dir).await;
    let dir = &dir;
    let engines = labs.iter().map(async |lab| {
        // One after the other: an engine has addresses for about thirty networks.
        for volumes in [false, true] {
            compare(lab, &docker, &compose, dir, volumes).await;
        }
    });
    join_all(engines).await;
}

/// Takes down two equal projects, one with the command and one with the tool.
async fn compare(lab: &Lab, docker: &str, compose: &str, dir: &Folder, volumes: bool) {
    let projects = ["real", "ours"].map(|who| lab.name(&format!("{who}{volumes}")));
    let all = join_all(projects.each_ref().map(async |project| {
        lab.command(docker, &["tag", "busybox:test", project])
            .await
            .unwrap();
        let unnamed = bring_up(lab, docker, compose, dir, project, !volumes).await;
        assert_eq!(unnamed.len(), 4, "{unnamed:?}");
        unnamed
    }));
    let all = all.await;
    let [real, ours] = &projects;
    if !volumes {
        compare_shown(lab, compose, ours).await;
    }
    let restarted =
        succeed!(*lab, "compose_service", {"project": ours, "service": "app", "action": "restart"});
    let count = restarted["containers"].as_array().unwrap().len();
    assert_eq!(count, 2, "{restarted}");

    let mut down = vec!["-p", real, "down"];
    down.extend(volumes.then_some("-v"));
    // The real one fails for the network that is in use.
    let _ = lab.command(compose, &down).await;
    let arguments = json!({"project": ours, "action": "down", "volumes": volumes, "confirm": ours});
    let done = succeed(lab, "compose_service", arguments).await;
    assert!(!texts(&done["removed_containers"]).is_empty(), "{done}");
    let told = all[1]
        .iter()
        .filter(|volume| done["failed"][*volume].is_string());
    assert_eq!(told.count(), usize::from(volumes), "{done}");
    let real_left = left(lab, docker, real, &all[0]).await;
    let ours_left = left(lab, docker, ours, &all[1]).await;
    assert_eq!(ours_left, real_left, "volumes: {volumes}; {done}");
    for (line, is_kept) in [
        ("container/P-foreign", true),
        ("network/P_default", true),
        ("volume/P-outside", true),
        ("network/P-outside", true),
        ("unnamed volumes: 4 of 4", !volumes),
    ] {
        assert_eq!(
            ours_left.contains(&line.to_owned()),
            is_kept,
            "{ours_left:?}"
        );
    }
    for volume in all.concat() {
        let _ = lab.command(docker, &["volume", "rm", &volume]).await;
    }
}

/// The arguments of `docker compose logs`, and those of the tool.
const LOGS: [(&str, &str); 5] = [
    ("", "{}"),
    ("--tail 1", r#"{"tail": 1}"#),
    ("--since 1h", r#"{"since": "1h"}"#),
    ("--until 1h", r#"{"until": "1h"}"#),
    ("app", r#"{"service": "app"}"#),
];

/// Waits until the tools tell of a project what the command tells without its files.
async fn compare_shown(lab: &Lab, compose: &str, project: &str) {
    let run = async |words: &str| {
        let words: Vec<_> = ["-p", project]
            .into_iter()
            .chain(words.split_whitespace())
            .collect();
        lab.command(compose, &words).await.unwrap()
    };
    wait_until("the containers of the command", async || {
        let told = run("ps -a --format json").await;
        let told = told.lines().map(|line| serde_json::from_str(line).unwrap());
        let shown = succeed!(*lab, "list_compose_projects", {"project": project});
        let shown = shown["projects"][0]["services"].as_array().unwrap();
        let (told, shown) = (
            sorted(told.map(told_row)),
            sorted(shown.iter().map(shown_row)),
        );
        told.len() == 10 && told == shown
    })
    .await;
    let found = succeed!(*lab, "list_containers", {"project": project});
    assert_eq!(found["containers"].as_array().unwrap().len(), 7, "{found}");
    let listed = run(&format!("ls -a --format json --filter name=^{project}$")).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let shown = succeed!(*lab, "list_compose_projects", {});
    let mut rows = shown["projects"].as_array().unwrap().iter();
    let shown = rows.find(|row| row["project"] == project).unwrap();
    let files = |files: &Value| sorted(files.as_str().unwrap().split(',').map(str::to_owned));
    assert_eq!(
        files(&shown["config_files"]),
        files(&listed[0]["ConfigFiles"])
    );
    let running = format!("running({})", shown["running"]);
    assert_contains(&listed[0]["Status"], &running);
    for (words, arguments) in LOGS {
        let arguments = serde_json::from_str::<Value>(arguments).unwrap();
        let arguments = merged(arguments, json!({"project": project, "timestamps": true}));
        wait_until("the logs of the command", async || {
            let told = run(&format!("logs --no-color -t {words}")).await;
            let told = told.lines().map(|line| {
                let (name, text) = line.trim_start_matches("\x1b[2K").split_once('|').unwrap();
                format!("{} {}", name.trim(), text.trim())
            });
            let shown = succeed(lab, "get_container_logs", arguments.clone()).await;
            let shown = shown["log"].as_str().unwrap().lines().map(|line| {
                let (time, line) = line.split_once(' ').unwrap();
                let (name, text) = line.split_once(" | ").unwrap();
                let name = name.strip_prefix(&format!("{project}-")).unwrap();
                format!("{name} {time} {text}")
            });
            let (told, shown) = (sorted(told), sorted(shown));
            told.is_empty() == words.contains("until") && told == shown
        })
        .await;
    }
}

fn sorted(rows: impl Iterator<Item = String>) -> Vec<String> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

/// A container as the command tells it.
fn told_row(at: Value) -> String {
    let ports = at["Publishers"].as_array().into_iter().flatten();
    let ports = ports.map(|port| {
        let inside = format!(
            "{}/{}",
            port["TargetPort"],
            port["Protocol"].as_str().unwrap()
        );
        match (
            port["URL"].as_str().unwrap(),
            port["PublishedPort"].as_u64().unwrap(),
        ) {
            (_, 0) => inside,
            (ip, public) => format!("{ip}:{public}->{inside}"),
        }
    });
    let names = ["Service", "Name", "State", "Status", "Image", "Health"];
    let texts = names.map(|name| at[name].as_str().unwrap());
    format!("{} {:?}", texts.join(" "), sorted(ports))
}

/// A container as the tool shows it.
fn shown_row(at: &Value) -> String {
    let ports = at["ports"].as_array().into_iter().flatten();
    let ports = ports.map(|port| port.as_str().unwrap().to_owned());
    let names = ["service", "container", "state", "status", "image", "health"];
    let texts = names.map(|name| at[name].as_str().unwrap_or_default());
    format!("{} {:?}", texts.join(" "), sorted(ports))
}
