//! The engine's request for a new container (`POST /containers/create`).

use bollard::models::{
    ContainerCreateBody, EndpointSettings, HealthConfig, HostConfig, HostConfigLogConfig,
    NetworkingConfig, ResourcesUlimits, RestartPolicy,
};

use super::super::limits::{memory_bytes, nano_cpus};
use super::super::prelude::*;
use super::mount::MountSpec;
use super::{CreateContainer, HealthcheckSpec, port};

impl CreateContainer {
    /// The request, with the options that are given and no others.
    pub(in crate::tools) fn body(&self) -> Result<ContainerCreateBody, ToolError> {
        let env = self.env.iter();
        let env: Vec<_> = env.map(|(key, value)| format!("{key}={value}")).collect();
        let labels = self.labels.clone().into_iter().collect();
        let ports = self.ports.as_deref();
        let mounts = self.mounts.as_ref();
        let binds = mounts.map(|mounts| mounts.iter().map(MountSpec::to_string).collect());
        let security = ["no-new-privileges:true".to_owned()];
        let ulimit = |(name, limit): (&String, &i64)| ResourcesUlimits {
            name: Some(name.clone()),
            soft: Some(*limit),
            hard: Some(*limit),
        };
        let tmpfs = |mounts: &Vec<String>| {
            let mounts = mounts.iter().map(|mount| {
                let (path, options) = mount.split_once(':').unwrap_or((mount, ""));
                (path.to_owned(), options.to_owned())
            });
            mounts.collect()
        };
        let host = HostConfig {
            port_bindings: ports.map(port::bindings),
            binds,
            auto_remove: self.auto_remove.then_some(true),
            privileged: self.privileged,
            cap_add: self.cap_add.clone(),
            cap_drop: self.cap_drop.clone(),
            network_mode: self.network.clone(),
            pid_mode: self.pid.clone(),
            ipc_mode: self.ipc.clone(),
            restart_policy: self.restart_policy()?,
            memory: self.memory_mb.map(memory_bytes),
            nano_cpus: self.cpus.map(nano_cpus).transpose()?,
            pids_limit: self.pids.map(|pids| pids.get().into()),
            ulimits: self
                .ulimits
                .as_ref()
                .map(|all| all.iter().map(ulimit).collect()),
            readonly_rootfs: self.read_only,
            tmpfs: self.tmpfs.as_ref().map(tmpfs),
            security_opt: self.no_new_privileges.map(|on| match on {
                true => security.to_vec(),
                false => Vec::new(),
            }),
            dns: self
                .dns
                .as_ref()
                .map(|all| all.iter().map(|ip| ip.to_string()).collect()),
            extra_hosts: self.extra_hosts.clone(),
            init: self.init,
            log_config: self.log_config(),
            ..HostConfig::default()
        };
        Ok(ContainerCreateBody {
            image: Some(self.image.to_string()),
            env: Some(env).filter(|env| !env.is_empty()),
            labels: Some(labels),
            exposed_ports: ports.map(port::exposed),
            cmd: self.command.clone(),
            entrypoint: self.entrypoint.clone(),
            user: self.user.clone(),
            working_dir: self.working_dir.clone(),
            hostname: self.hostname.as_ref().map(ContainerName::to_string),
            stop_signal: self.stop_signal.clone(),
            healthcheck: self.healthcheck.as_ref().map(HealthcheckSpec::config),
            host_config: Some(host),
            networking_config: self.endpoints()?,
            ..ContainerCreateBody::default()
        })
    }

    fn restart_policy(&self) -> Result<Option<RestartPolicy>, ToolError> {
        let mut policy: Option<RestartPolicy> = self.restart.map(Into::into);
        if let Some(most) = self.restart_retries {
            let text = "restart_retries needs restart: on-failure.";
            let on_failure = policy.as_mut().filter(|_| self.restarts_on_failure());
            let policy = on_failure.ok_or_else(|| ToolError::invalid_argument(text))?;
            policy.maximum_retry_count = Some(most.get().into());
        }
        Ok(policy)
    }

    fn restarts_on_failure(&self) -> bool {
        matches!(self.restart, Some(super::RestartPolicy::OnFailure))
    }

    /// The log driver with its rotation.
    fn log_config(&self) -> Option<HostConfigLogConfig> {
        let size = self
            .log_max_mb
            .map(|size| ("max-size", format!("{}m", size.get())));
        let files = self
            .log_max_files
            .map(|most| ("max-file", most.get().to_string()));
        let options = [size, files].into_iter().flatten();
        let options = options.map(|(name, value)| (name.to_owned(), value));
        let options: std::collections::HashMap<_, _> = options.collect();
        let default = || (!options.is_empty()).then(|| "json-file".to_owned());
        let driver = self.log_driver.clone().or_else(default)?;
        Some(HostConfigLogConfig {
            typ: Some(driver),
            config: Some(options),
        })
    }

    /// The names in its network.
    fn endpoints(&self) -> Result<Option<NetworkingConfig>, ToolError> {
        let Some(aliases) = &self.aliases else {
            return Ok(None);
        };
        let Some(network) = &self.network else {
            let text = "aliases need a network of your own: give network.";
            return Err(ToolError::invalid_argument(text));
        };
        let endpoint = EndpointSettings {
            aliases: Some(aliases.iter().map(ContainerName::to_string).collect()),
            ..EndpointSettings::default()
        };
        Ok(Some(NetworkingConfig {
            endpoints_config: Some([(network.clone(), endpoint)].into()),
        }))
    }
}

impl HealthcheckSpec {
    fn config(&self) -> HealthConfig {
        let kind = match &*self.command {
            [none] if none == "NONE" => None,
            [_] => Some("CMD-SHELL"),
            _ => Some("CMD"),
        };
        let kind = kind.into_iter().map(str::to_owned);
        let nanoseconds = |seconds: Option<u32>| seconds.map(|s| i64::from(s) * 1_000_000_000);
        HealthConfig {
            test: Some(kind.chain(self.command.iter().cloned()).collect()),
            interval: nanoseconds(self.interval_seconds),
            timeout: nanoseconds(self.timeout_seconds),
            retries: self.retries.map(Into::into),
            start_period: nanoseconds(self.start_period_seconds),
            start_interval: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn body(more: Value) -> Value {
        let mut asked = json!({"image": "busybox"});
        asked
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let tool: CreateContainer = serde_json::from_value(asked).unwrap();
        serde_json::to_value(tool.body().unwrap()).unwrap()
    }

    #[test]
    fn arguments_become_the_engines_request() {
        for (asked, pointer, expected) in [
            (json!({"env": {"A": "b=c"}}), "/Env", json!(["A=b=c"])),
            (
                json!({"mounts": ["data:/data:ro"]}),
                "/HostConfig/Binds",
                json!(["data:/data:ro"]),
            ),
            (
                json!({"memory_mb": 64}),
                "/HostConfig/Memory",
                json!(64 << 20),
            ),
            (
                json!({"cpus": 0.5}),
                "/HostConfig/NanoCpus",
                json!(500_000_000),
            ),
            (
                json!({"restart": "on-failure", "restart_retries": 3}),
                "/HostConfig/RestartPolicy",
                json!({"Name": "on-failure", "MaximumRetryCount": 3}),
            ),
            (
                json!({"tmpfs": ["/tmp:size=1m", "/run"]}),
                "/HostConfig/Tmpfs",
                json!({"/tmp": "size=1m", "/run": ""}),
            ),
            (
                json!({"log_max_mb": 10, "log_max_files": 3}),
                "/HostConfig/LogConfig",
                json!({"Type": "json-file", "Config": {"max-size": "10m", "max-file": "3"}}),
            ),
            (
                json!({"healthcheck": {"command": ["true"], "retries": 2}}),
                "/Healthcheck",
                json!({"Test": ["CMD-SHELL", "true"], "Retries": 2}),
            ),
            (
                json!({"network": "n", "aliases": ["a"]}),
                "/NetworkingConfig/EndpointsConfig",
                json!({"n": {"Aliases": ["a"]}}),
            ),
            (
                json!({"ulimits": {"nofile": 9}}),
                "/HostConfig/Ulimits/0",
                json!({"Name": "nofile", "Soft": 9, "Hard": 9}),
            ),
            (json!({}), "/HostConfig", json!({})),
        ] {
            assert_eq!(
                body(asked.clone()).pointer(pointer),
                Some(&expected),
                "{asked}"
            );
        }
        for text in [
            r#"{"image":"x","restart_retries":3}"#,
            r#"{"image":"x","aliases":["a"]}"#,
        ] {
            let tool: CreateContainer = serde_json::from_str(text).unwrap();
            assert!(tool.body().is_err(), "{text}");
        }
    }
}
