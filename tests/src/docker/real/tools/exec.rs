//! `execute_command`: off by default, exact, bounded, and without leftover processes.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::docker::prelude::*;

async fn execute(lab: &Lab, container: &str, more: Value) -> Value {
    let arguments = merged(more, json!({"container": container}));
    succeed(lab, "execute_command", arguments).await
}

/// The processes in a container, as reported by the engine.
async fn processes(lab: &Lab, container: &str) -> Vec<String> {
    let top = lab.docker.top_processes(container, None).await.unwrap();
    let rows = top.processes.unwrap().into_iter();
    rows.map(|row| row.last().unwrap().clone()).collect()
}

/// Its own bound, which may be longer than that of other calls.
#[tokio::test]
async fn the_time_of_a_call_is_what_its_arguments_ask_for() {
    // A busy engine needs some seconds more than it was asked for.
    let Some(lab) = lab_with(&[("MCP_CALL_TIMEOUT", "15")]).await else {
        return;
    };
    let deaf = lab
        .run_script("deaf", "trap '' TERM; while :; do sleep 0.1; done")
        .await;
    let name = lab.sleep("web", json!({})).await;
    let command = json!(["sh", "-c", "echo before; sleep 555"]);
    let executed = execute(
        &lab,
        &name,
        json!({"command": command, "timeout_seconds": 18}),
    );
    let wait = json!({"container": name, "timeout_seconds": 18});
    let stop = json!({"container": deaf, "timeout_seconds": 18});
    let build = json!({"tag": "mcp-test-never:1", "timeout_seconds": 18, "no_cache": true,
        "dockerfile": "FROM busybox:test\nRUN echo before && sleep 556"});
    let (done, waited, stopped, text) = tokio::join!(
        executed,
        succeed(&lab, "wait_container", wait),
        succeed(&lab, "stop_container", stop),
        fail(&lab, "build_image", build),
    );
    assert_has!(done, {"stdout": "before\n", "timed_out": true});
    let left = processes(&lab, &name).await;
    assert!(!left.iter().any(|line| line.contains("555")), "{left:?}");
    assert_eq!(waited["reached"], false);
    assert_eq!(stopped["exit_code"], 137, "{stopped}");
    assert_contains(&text, "did not end within 18 s");
    assert_contains(&text, "before");
}

#[tokio::test]
async fn commands_end_with_the_server() {
    let Some(lab) = lab().await else { return };
    let name = lab.sleep("web", json!({})).await;
    let mut server = in_front_of(&lab.host, &[]).await;
    let call = json!({"name": "execute_command", "arguments": {"container": name,
        "command": ["sleep", "557"], "timeout_seconds": 500}});
    let runs = async || {
        let all = processes(&lab, &name).await;
        all.iter().any(|line| line.contains("557"))
    };
    tokio::select! {
        reply = post(&server, "tools/call", call) => panic!("{reply:?}"),
        () = wait_until("it runs", &runs) => {}
    }
    kill(Pid::from_raw(server.pid().cast_signed()), Signal::SIGTERM).unwrap();
    server.wait_for_exit().await;
    wait_until("it ends", async || !runs().await).await;
}

#[tokio::test]
async fn execute_command_is_off_by_default() {
    let Some(lab) = lab_with(&[("DOCKER_MCP_ALLOW_EXEC", "0")]).await else {
        return;
    };
    let name = lab.sleep("web", json!({})).await;
    fails_with!(lab, "execute_command", {"container": name, "command": ["touch", "/x"]}, "--allow-exec");
    assert!(lab.docker.container_changes(&name).await.unwrap().is_none());
}

/// Commands, and what becomes of them.
const COMMANDS: &str = r#"
execute_command | {"container": "P-web", "command": ["echo out; echo err >&2; exit 3"], "shell": true} | {"stdout": "out\n", "stderr": "err\n", "exit_code": 3}
execute_command | {"container": "P-web", "command": ["sh", "-c", "pwd; echo $A; id -u"], "working_dir": "/bin", "env": {"A": "b c"}, "user": "1000"} | {"stdout": "/bin\nb c\n1000\n"}
execute_command | {"container": "P-web", "command": ["echo", "two"], "shell": true} | ! one string
execute_command | {"container": "P-web", "command": ["nope"]} | "exit_code":127 & was not found in the container
execute_command | {"container": "P-web", "command": ["/etc"]} | {"exit_code": 126}
execute_command | {"container": "P-web", "command": ["id"], "user": "nosuch"} | unable to find user nosuch & the engine's reason
execute_command | {"container": "P-web", "command": ["id"], "working_dir": "/etc/passwd"} | chdir to cwd & the engine's reason
execute_command | {"container": "P-web", "command": ["printf", "run\\0--password\\0canary-9\\0end"]} | {"stdout": "run --password *** end"}
execute_command | {"container": "P-ended", "command": ["true"]} | ! is exited
"#;

#[tokio::test]
async fn output_and_exit_code_are_those_of_the_command() {
    let Some(lab) = lab().await else { return };
    let name = lab.sleep("web", json!({})).await;
    lab.finish("ended", &["true"], json!({})).await;
    lab.steps(COMMANDS, &[]).await;

    // As the real command passes them, also those that no shell passes on.
    let own = json!({"Env": ["spring.port=1", "a-b=c d", "1x=y", "PLAIN=z"]});
    let other = lab.sleep("other", own).await;
    let more = json!({"command": ["env"], "env": {"spring.port": "2", "new.one": "'"}});
    let stdout = execute(&lab, &other, more).await["stdout"].clone();
    let mut lines: Vec<&str> = stdout.as_str().unwrap().lines().collect();
    lines.retain(|line| {
        !["PATH=", "HOSTNAME=", "HOME=", "SHLVL=", "PWD=", "TERM="]
            .iter()
            .any(|name| line.starts_with(name))
    });
    lines.sort_unstable();
    let expected = ["1x=y", "PLAIN=z", "a-b=c d", "new.one='", "spring.port=2"];
    assert_eq!(lines, expected);

    let odd: Vec<&str> = "$(id)|`id`|; touch /x|a b|\"'|*|-n||$1|é\n"
        .split('|')
        .collect();
    let command = [&["printf", "[%s]"], &odd[..]].concat();
    let done = execute(&lab, &name, json!({"command": command})).await;
    let expected: String = odd.iter().map(|word| format!("[{word}]")).collect();
    assert_eq!(done["stdout"], json!(expected));
    assert!(lab.docker.container_changes(&name).await.unwrap().is_none());

    let script = "echo first; yes middle | head -c 5000000; echo; echo last";
    let done = execute(&lab, &name, json!({"command": [script], "shell": true})).await;
    let stdout = done["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("first\n") && stdout.ends_with("last\n"));
    assert!(stdout.len() < 4_000 && done["omitted_bytes"].as_u64().unwrap() > 4_900_000);
    let more = json!({"command": [script], "shell": true, "max_bytes": 100_000});
    let done = execute(&lab, &name, more).await;
    assert!(done["stdout"].as_str().unwrap().len() > 99_000);
    // A value is known by its name, also where the output is cut.
    let script = "for i in $(seq 1 3000); do echo DB_PASSWORD=Zx9qW7pL0secretvalue; done";
    for room in [100, 3_500] {
        let more = json!({"command": [script], "shell": true, "max_bytes": room});
        let done = execute(&lab, &name, more).await;
        assert_lacks(&done["stdout"], "value");
        assert!(done["omitted_bytes"].is_number(), "{done}");
    }
}

#[tokio::test]
async fn timeout_and_cancellation_leave_no_process_behind() {
    let Some(lab) = lab().await else { return };
    let name = lab.sleep("web", json!({})).await;
    let more = json!({"command": ["sleep", "601"], "timeout_seconds": 1});
    let done = execute(&lab, &name, more).await;
    assert_has!(done, {"timed_out": true, "exit_code": 137});
    assert_contains(
        &done["note"],
        "programs that it put into a session of their own may still run",
    );
    // With its child processes; the output before the timeout is kept.
    let script = "echo begun; sleep 602 & sleep 603 & sleep 604";
    let more = json!({"command": [script], "shell": true, "timeout_seconds": 15});
    let done = execute(&lab, &name, more).await;
    assert_has!(done, {"timed_out": true, "stdout": "begun\n"});
    let is_alone = async || processes(&lab, &name).await == ["sleep 600"];
    wait_until("the end of the processes", is_alone).await;

    let mut session = StdioSession::open(&lab.host, &[]).await;
    let command = json!(["sh", "-c", "sleep 605"]);
    let arguments = json!({"container": name, "command": command});
    let id = session.start("execute_command", arguments).await;
    let runs = async || {
        processes(&lab, &name)
            .await
            .contains(&"sleep 605".to_owned())
    };
    wait_until("the start of the process", runs).await;
    session.cancel(id).await;
    wait_until("the end of the process", is_alone).await;
}

#[tokio::test]
async fn process_without_a_shell_is_reported_as_still_running() {
    let Some(lab) = lab().await else { return };
    let tag = format!("{}:1", lab.name("bare"));
    let dockerfile =
        "FROM scratch\nCOPY --from=busybox:test /bin/busybox /sleep\nCMD [\"/sleep\", \"600\"]";
    succeed!(lab, "build_image", {"tag": tag, "dockerfile": dockerfile});
    let image = json!({"Image": tag});
    let name = lab.run("web", &["/sleep", "600"], image).await;
    let quick = execute(&lab, &name, json!({"command": ["/sleep", "0"]})).await;
    assert_eq!(quick["exit_code"], 0, "{quick}");
    // A busy engine needs some seconds to find that there is no shell.
    let slow = json!({"command": ["/sleep", "606"], "timeout_seconds": 15});
    let slow = execute(&lab, &name, slow).await;
    assert_has!(slow, {"timed_out": true, "still_running": true});
    let exec = slow["exec_id"].as_str().unwrap();
    let exec = lab.docker.inspect_exec(exec).await.unwrap();
    assert_eq!(exec.running, Some(true));
}
