//! The engine's request for a new container (`POST /containers/create`).

use bollard::models::ContainerCreateBody;
use serde_json::{Map, Value, json};

use super::super::limits::{RestartPolicy, memory_bytes, nano_cpus};
use super::super::prelude::*;
use super::mount::MountSpec;
use super::{CreateContainer, HealthcheckSpec, port};

impl CreateContainer {
    /// The request, with the options that are given and no others.
    pub(in crate::tools) fn body(&self) -> Result<ContainerCreateBody, ToolError> {
        let env = self.env.iter();
        let env: Vec<_> = env.map(|(key, value)| format!("{key}={value}")).collect();
        let ports = self.ports.as_deref();
        let mounts = self.mounts.iter().flatten().map(MountSpec::to_string);
        let ulimits = self.ulimits.iter().flatten();
        let ulimit = |(name, limit)| json!({"Name": name, "Soft": limit, "Hard": limit});
        let tmpfs = self.tmpfs.iter().flatten();
        let tmpfs = tmpfs.map(|mount| mount.split_once(':').unwrap_or((mount, "")));
        let security = self.no_new_privileges.map(|on| match on {
            true => vec!["no-new-privileges:true"],
            false => Vec::new(),
        });
        let host = json!({
            "PortBindings": ports.map(port::bindings),
            "Binds": self.mounts.as_ref().map(|_| mounts.collect::<Vec<_>>()),
            "AutoRemove": self.auto_remove.then_some(true),
            "Privileged": self.privileged,
            "CapAdd": self.cap_add,
            "CapDrop": self.cap_drop,
            "NetworkMode": self.network,
            "PidMode": self.pid,
            "IpcMode": self.ipc,
            "RestartPolicy": self.restart_policy()?,
            "Memory": self.memory_mb.map(memory_bytes),
            "NanoCpus": self.cpus.map(nano_cpus).transpose()?,
            "PidsLimit": self.pids.map(Bounded::get),
            "Ulimits": self.ulimits.as_ref().map(|_| ulimits.map(ulimit).collect::<Vec<_>>()),
            "ReadonlyRootfs": self.read_only,
            "Tmpfs": self.tmpfs.as_ref().map(|_| tmpfs.collect::<BTreeMap<_, _>>()),
            "SecurityOpt": security,
            "Dns": self.dns,
            "ExtraHosts": self.extra_hosts,
            "Init": self.init,
            "LogConfig": self.log_config(),
        });
        let mut body = json!({
            "Image": self.image,
            "Env": (!env.is_empty()).then_some(env),
            "Labels": self.labels,
            "ExposedPorts": ports.map(port::exposed),
            "Cmd": self.command,
            "Entrypoint": self.entrypoint,
            "User": self.user,
            "WorkingDir": self.working_dir,
            "Hostname": self.hostname,
            "StopSignal": self.stop_signal,
            "Healthcheck": self.healthcheck.as_ref().map(HealthcheckSpec::config),
            "HostConfig": host,
            "NetworkingConfig": self.endpoints()?,
        });
        // The type of the request reads some nulls as empty lists, which mean something else.
        if let Value::Object(members) = &mut body {
            members.retain(|_, value| !value.is_null());
        }
        let invalid = |error: serde_json::Error| ToolError::invalid_argument(error.to_string());
        serde_json::from_value(body).map_err(invalid)
    }

    fn restart_policy(&self) -> Result<Option<Value>, ToolError> {
        match (self.restart, self.restart_retries) {
            (restart, None) => Ok(restart.map(|name| json!({"Name": name}))),
            (Some(name @ RestartPolicy::OnFailure), Some(most)) => {
                Ok(Some(json!({"Name": name, "MaximumRetryCount": most.get()})))
            }
            _ => Err(ToolError::invalid_argument(
                "restart_retries needs restart: on-failure.",
            )),
        }
    }

    /// The log driver with its rotation.
    fn log_config(&self) -> Option<Value> {
        let mut options = Map::new();
        if let Some(size) = self.log_max_mb {
            options.insert("max-size".to_owned(), format!("{}m", size.get()).into());
        }
        if let Some(most) = self.log_max_files {
            options.insert("max-file".to_owned(), most.get().to_string().into());
        }
        let default = (!options.is_empty()).then_some("json-file");
        let driver = self.log_driver.as_deref().or(default)?;
        Some(json!({"Type": driver, "Config": options}))
    }

    /// The names in its network.
    fn endpoints(&self) -> Result<Option<Value>, ToolError> {
        let Some(aliases) = &self.aliases else {
            return Ok(None);
        };
        let Some(network) = &self.network else {
            let text = "aliases need a network of your own: give network.";
            return Err(ToolError::invalid_argument(text));
        };
        let endpoints = json!({network: {"Aliases": aliases}});
        Ok(Some(json!({"EndpointsConfig": endpoints})))
    }
}

impl HealthcheckSpec {
    fn config(&self) -> Value {
        let mut test: Vec<&str> = self.command.iter().map(String::as_str).collect();
        match *test {
            ["NONE"] => {}
            [_] => test.insert(0, "CMD-SHELL"),
            _ => test.insert(0, "CMD"),
        }
        let nanoseconds = |seconds: Option<u32>| seconds.map(|s| i64::from(s) * 1_000_000_000);
        json!({
            "Test": test,
            "Interval": nanoseconds(self.interval_seconds),
            "Timeout": nanoseconds(self.timeout_seconds),
            "Retries": self.retries,
            "StartPeriod": nanoseconds(self.start_period_seconds),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(asked: &str) -> Result<Value, ToolError> {
        let mut asked: Value = serde_json::from_str(asked).unwrap();
        asked["image"] = "busybox".into();
        let tool: CreateContainer = serde_json::from_value(asked).unwrap();
        Ok(json!(tool.body()?))
    }

    #[test]
    fn arguments_become_the_engines_request() {
        for (asked, pointer, expected) in [
            (r#"{"env": {"A": "b=c"}}"#, "/Env", r#"["A=b=c"]"#),
            (
                r#"{"mounts": ["d:/d:ro"]}"#,
                "/HostConfig/Binds",
                r#"["d:/d:ro"]"#,
            ),
            (r#"{"ports": ["80"]}"#, "/ExposedPorts", r#"{"80/tcp": {}}"#),
            (r#"{"memory_mb": 64}"#, "/HostConfig/Memory", "67108864"),
            (r#"{"cpus": 0.5}"#, "/HostConfig/NanoCpus", "500000000"),
            (
                r#"{"restart": "on-failure", "restart_retries": 3}"#,
                "/HostConfig/RestartPolicy",
                r#"{"Name": "on-failure", "MaximumRetryCount": 3}"#,
            ),
            (
                r#"{"tmpfs": ["/tmp:size=1m", "/run"]}"#,
                "/HostConfig/Tmpfs",
                r#"{"/tmp": "size=1m", "/run": ""}"#,
            ),
            (
                r#"{"log_max_mb": 10, "log_max_files": 3}"#,
                "/HostConfig/LogConfig",
                r#"{"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}}"#,
            ),
            (
                r#"{"healthcheck": {"command": ["true"], "retries": 2}}"#,
                "/Healthcheck",
                r#"{"Test": ["CMD-SHELL", "true"], "Retries": 2}"#,
            ),
            (
                r#"{"network": "n", "aliases": ["a"]}"#,
                "/NetworkingConfig/EndpointsConfig",
                r#"{"n": {"Aliases": ["a"]}}"#,
            ),
            (
                r#"{"ulimits": {"nofile": 9}}"#,
                "/HostConfig/Ulimits/0",
                r#"{"Name": "nofile", "Soft": 9, "Hard": 9}"#,
            ),
            (
                "{}",
                "",
                r#"{"Image": "busybox", "Labels": {}, "HostConfig": {}}"#,
            ),
        ] {
            let expected: Value = serde_json::from_str(expected).unwrap();
            assert_eq!(
                body(asked).unwrap().pointer(pointer),
                Some(&expected),
                "{asked}"
            );
        }
        for invalid in [
            r#"{"restart_retries":3}"#,
            r#"{"restart":"always","restart_retries":3}"#,
            r#"{"aliases":["a"]}"#,
        ] {
            assert!(body(invalid).is_err(), "{invalid}");
        }
    }
}
