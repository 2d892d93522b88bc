//! The tools of projects beside the real `docker compose`.

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

/// Brings up a project with all that compose can leave behind. Returns its volumes without a name.
async fn bring_up(
    lab: &Lab,
    docker: &str,
    compose: &str,
    dir: &Folder,
    project: &str,
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
    // Single commands, and a container whose image has the labels of the project.
    for words in [
        "up -d --build",
        "run -d --no-deps --name PROJECT-once db sleep 600",
        "run --no-deps --name PROJECT-done db true",
    ] {
        let file = file.display();
        run(
            compose,
            &format!("-p PROJECT -f {file} --profile seldom {words}"),
        )
        .await;
    }
    let foreign = "run -d --name PROJECT-foreign --network PROJECT_default PROJECT-app sleep 600";
    run(docker, foreign).await;
    // No more a service of the file.
    dir.write(
        &format!("{project}/compose.yaml"),
        &yaml.replace("  orphan:", "  other:"),
    );
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
        let unnamed = bring_up(lab, docker, compose, dir, project).await;
        assert_eq!(unnamed.len(), 4, "{unnamed:?}");
        unnamed
    }));
    let all = all.await;
    let [real, ours] = &projects;
    let listed = succeed!(*lab, "list_compose_projects", {"project": ours});
    let shown = member_texts(&listed["projects"][0]["services"], "container");
    assert_eq!(shown.len(), 6, "{shown:?}");
    assert_lacks(&listed, "-foreign");
    let found = succeed!(*lab, "list_containers", {"project": ours});
    assert_eq!(found["containers"].as_array().unwrap().len(), 5, "{found}");
    let restarted =
        succeed!(*lab, "compose_service", {"project": ours, "service": "app", "action": "restart"});
    let count = restarted["containers"].as_array().unwrap().len();
    assert_eq!(count, 1, "{restarted}");

    let mut down = vec!["-p", real, "down"];
    down.extend(volumes.then_some("-v"));
    // The real one fails for the network that is in use.
    let _ = lab.command(compose, &down).await;
    let arguments = json!({"project": ours, "action": "down", "volumes": volumes, "confirm": ours});
    let done = succeed(lab, "compose_service", arguments).await;
    assert!(!texts(&done["removed_containers"]).is_empty(), "{done}");
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
